"""Colorization: nothing is masked; every code of an image is predicted from its gray levels.

isopix pretrain igpt.digits --plugin examples/extend/colorization.py objective=colorization --out runs/colors
"""

import torch

from isopix import parts


@parts.register("colorization")
class Colorization(parts.ObjectiveSpec):
    """Mean over all positions of -ln p(code of the image | grayscale image)."""

    @property
    def corruption(self) -> parts.MaskingSpec:
        return parts.ZeroMaskingSpec()  # never used: no position is masked

    def make_batch(
        self, images: parts.Images, codec: parts.Codec, generator: torch.Generator
    ) -> parts.TrainingBatch:
        gray = images.float().mean(1, keepdim=True).round().to(torch.uint8).expand_as(images)
        targets = codec.encode(images)
        everywhere = torch.ones_like(targets[..., :1], dtype=torch.bool)
        return parts.TrainingBatch.with_equal_weights(gray, None, targets, everywhere)
