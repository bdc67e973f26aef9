"""Export a loaded run to the format of another library."""

from dataclasses import replace
from pathlib import Path

from isopix.interop.huggingface.convert import export_imagegpt
from isopix.interop.huggingface.folder import ExportedModel
from isopix.interop.vit.export import ExportedHead, export_vit
from isopix.runs.checkpoint_content import CLASSIFIER
from isopix.runs.load import LoadedRun, checkpoint_to_use, find_checkpoint

NO_CLASS_HEAD = "class head, which ImageGPTForCausalImageModeling does not have"


def exported_model(loaded: LoadedRun, path: Path | None) -> ExportedModel:
    """Return the model of `transformers` that can represent a network: ViTModel for patches, with the class
    head of the run at `path` ViTForImageClassification, else ImageGPT, which leaves a class head out.

    Raises ValueError for a network that it cannot represent, and for ImageGPT if the decoder was abandoned.
    """
    recipe, head = loaded.recipe, None if path is None else _class_head(loaded, path)
    if recipe.model.codec.patch_size == 1 or recipe.objective.can_sample:
        loaded.require_decoder("convert to-huggingface")
        left_out = () if head is None else head.tensors
        skipped = {f"{CLASSIFIER}.{name}": NO_CLASS_HEAD for name in left_out}
        return replace(export_imagegpt(loaded.network), skipped=skipped)
    return export_vit(loaded.network, recipe, head)


def _class_head(loaded: LoadedRun, path: Path) -> ExportedHead | None:
    """The class head of a run that was fine-tuned on classes; None for others and for saved models."""
    settings = loaded.recipe.finetune
    if settings is None or not settings.has_class_loss:
        return None
    found, _ = find_checkpoint(checkpoint_to_use(path))
    if CLASSIFIER not in found.tensors:
        return None
    classes = tuple(map(str, found.records["state"]["classes"]))
    return ExportedHead(found.tensors[CLASSIFIER], settings, classes)
