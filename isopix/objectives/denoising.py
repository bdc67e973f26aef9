"""Denoising: the clean image from one with Gaussian noise."""

import math

import torch

from isopix.codecs.base import Codec
from isopix.core.choices import PositiveNumber
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.masking import MaskingSpec, ZeroMaskingSpec
from isopix.objectives.base import ObjectiveSpec, TrainingBatch


@register("denoising", "denoising, Gaussian noise")
class Denoising(ObjectiveSpec):
    """All codes of an image, from the image with Gaussian noise, rounded and clipped to its 256 levels
    (Vincent et al. 2010; levels of noise as Chen et al. 2024, "Deconstructing denoising diffusion models").
    """

    max_noise: PositiveNumber = math.sqrt(2)
    """Largest standard deviation of the noise, in standard deviations of the image's pixels; each image has
    one uniform between 0 and it.
    """

    @property
    def corruption(self) -> MaskingSpec:
        return ZeroMaskingSpec()  # never used: no position is masked

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        """Return a batch with noise in its inputs and all positions in the loss."""
        noise = torch.randn(images.shape, generator=generator).to(images.device)
        level = torch.rand(len(images), 1, 1, 1, generator=generator).to(images.device) * self.max_noise
        noise *= level * images.float().std((1, 2, 3), keepdim=True)
        noisy = (images + noise).round().clamp(0, 255).to(torch.uint8)
        targets = codec.encode(images)
        everywhere = torch.ones_like(targets[..., :1], dtype=torch.bool)
        return TrainingBatch.with_equal_weights(noisy, None, targets, everywhere)
