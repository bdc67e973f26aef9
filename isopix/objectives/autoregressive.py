"""Autoregressive objective: predict every code from those before it in raster order."""

from typing import ClassVar

import torch

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.masking import ShiftRightMaskingSpec
from isopix.objectives.base import ObjectiveSpec, TrainingBatch


@register("autoregressive")
class Autoregressive(ObjectiveSpec):
    """L_AR = E[-ln p(x)], p(x) = prod_i p(x_i | x_1 .. x_i-1): mean over positions (iGPT section 2.1)."""

    can_sample: ClassVar[bool] = True

    @property
    def causal(self) -> bool:
        return True

    @property
    def corruption(self) -> ShiftRightMaskingSpec:
        return ShiftRightMaskingSpec()

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        """Return a batch with every position in the loss; nothing is random."""
        targets = codec.encode(images)
        return TrainingBatch.with_equal_weights(
            images, None, targets, torch.ones_like(targets[..., :1], dtype=torch.bool)
        )
