"""Denoising: nothing is masked; every code of the clean image is predicted from a noisy one.

isopix pretrain igpt.digits --plugin examples/extend/denoising.py objective=denoising --out runs/denoising
"""

import torch

from isopix import parts


@parts.register("denoising")
class Denoising(parts.ObjectiveSpec):
    """Mean over all positions of -ln p(code of the clean image | image + Gaussian noise)."""

    std: float = 64.0  # of the noise, in levels of 255

    def __post_init__(self) -> None:
        if not 0 < self.std < 256:
            raise ValueError(f"std {self.std} must be above 0 and below 256")

    def label(self) -> str:
        return f"denoising, std {self.std:g}"

    @property
    def corruption(self) -> parts.MaskingSpec:
        return parts.ZeroMaskingSpec()  # never used: no position is masked

    def make_batch(
        self, images: parts.Images, codec: parts.Codec, generator: torch.Generator
    ) -> parts.TrainingBatch:
        noise = self.std * torch.randn(images.shape, generator=generator)
        noisy = (images + noise.to(images.device)).round().clamp(0, 255).to(torch.uint8)
        targets = codec.encode(images)
        everywhere = torch.ones_like(targets[..., :1], dtype=torch.bool)
        return parts.TrainingBatch.with_equal_weights(noisy, None, targets, everywhere)
