"""Export a run to `transformers`."""

from dataclasses import replace

from isopix.interop.exported_model import ExportedModel
from isopix.interop.imagegpt import export_imagegpt
from isopix.interop.vit_export import export_vit
from isopix.runs.load import LoadedRun

NO_CLASS_HEAD = "class head, which ImageGPTForCausalImageModeling does not have"


def exported_model(loaded: LoadedRun) -> ExportedModel:
    """Return the model of `transformers` that can represent a network: ViTModel for patches, with the class
    head of a fine-tuned one ViTForImageClassification, else ImageGPT, which leaves a class head out.

    Raises ValueError for a network that it cannot represent, and for ImageGPT if the decoder was abandoned.
    """
    recipe, head = loaded.recipe, loaded.class_head
    tensors = {} if head is None else head.state_dict()
    if recipe.model.codec.patch_size == 1 or recipe.objective.can_sample:
        loaded.require_decoder("convert to-huggingface")
        skipped = {f"classifier.{name}": NO_CLASS_HEAD for name in tensors}
        return replace(export_imagegpt(loaded.network), skipped=skipped)
    return export_vit(loaded.network, recipe, tensors, loaded.classes)
