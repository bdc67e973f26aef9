"""The training task of fine-tuning."""

import torch

from isopix.core.types import Images, Labels, Scalar
from isopix.data.patch_augment import PatchAugmentSpec
from isopix.finetuning.classifier import FineTuneModel, LabeledBatch
from isopix.train.tasks import NO_PATCH_AUGMENT, augment_patches


class FineTuneTask:
    """Fine-tuning on labeled images. `patch_augment` changes the inputs in training, and neither the targets
    nor evaluations.
    """

    def __init__(self, model: FineTuneModel, patch_augment: PatchAugmentSpec = NO_PATCH_AUGMENT):
        self.module, self.patch_augment = model, patch_augment

    def make_batch(self, images: Images, labels: Labels | None, generator: torch.Generator) -> LabeledBatch:
        assert labels is not None, "checked by require_labels"
        augment = augment_patches(self.patch_augment, self.module.network, generator)
        return self.module.make_batch(images, labels, generator, augment)

    def evaluate(
        self, images: Images, labels: Labels | None, generator: torch.Generator
    ) -> dict[str, Scalar]:
        assert labels is not None, "checked by require_labels"
        labeled = self.module.make_batch(images, labels, generator)
        return self.module.evaluate(labeled.to(images.device), images)
