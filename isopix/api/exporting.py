"""Export a loaded run to the format of another library."""

from dataclasses import replace

from isopix.interop.huggingface.convert import export_imagegpt
from isopix.interop.huggingface.folder import ExportedModel
from isopix.interop.vit.export import ExportedHead, export_vit
from isopix.runs.load import LoadedRun
from isopix.runs.state import CLASSIFIER

NO_CLASS_HEAD = "class head, which ImageGPTForCausalImageModeling does not have"


def exported_model(loaded: LoadedRun) -> ExportedModel:
    """Return the model of `transformers` that can represent a network: ViTModel for patches, with the class
    head of a fine-tuned one ViTForImageClassification, else ImageGPT, which leaves a class head out.

    Raises ValueError for a network that it cannot represent, and for ImageGPT if the decoder was abandoned.
    """
    recipe, head = loaded.recipe, _class_head(loaded)
    if recipe.model.codec.patch_size == 1 or recipe.objective.can_sample:
        loaded.require_decoder("convert to-huggingface")
        left_out = () if head is None else head.tensors
        skipped = {f"{CLASSIFIER}.{name}": NO_CLASS_HEAD for name in left_out}
        return replace(export_imagegpt(loaded.network), skipped=skipped)
    return export_vit(loaded.network, recipe, head)


def _class_head(loaded: LoadedRun) -> ExportedHead | None:
    """The class head of a model that was fine-tuned on classes; None for others."""
    head, settings = loaded.class_head, loaded.recipe.finetune
    if head is None or settings is None:
        return None
    return ExportedHead(head.state_dict(), settings, loaded.classes)
