"""RandAugment and random erasing, of images that another augmentation has cut."""

from collections.abc import Callable
from dataclasses import field
from math import sqrt
from typing import Annotated

import numpy as np
import torch
from einops import rearrange
from jaxtyping import UInt8
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from isopix.core.choices import NonNegative, Probability, Range
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.data.augment import NUM_DRAWS, AugmentationSpec, InceptionCrop
from isopix.data.splits import Indices, Split

Operation = Callable[[Image.Image, float], Image.Image]  # its strength is -1 to 1

MEAN, DEVIATION = (124, 116, 104), (58, 57, 57)  # of the pixels of ImageNet: beyond borders, and of noise
APPLIED = 0.5  # probability that a drawn operation is applied
AREA, MIN_RATIO = (0.02, 1 / 3), 0.3  # of an erased box: Zhong et al. 2020, and timm


def _solarize_add(image: Image.Image, strength: float) -> Image.Image:
    return image.point(
        [min(255, level + int(110 * abs(strength)) * (level < 128)) for level in range(256)] * 3
    )


def _enhance(kind: Callable[[Image.Image], ImageEnhance._Enhance]) -> Operation:
    return lambda image, strength: kind(image).enhance(1 + 0.9 * strength)


def _affine(image: Image.Image, *matrix: float) -> Image.Image:
    transform, filtering = Image.Transform.AFFINE, Image.Resampling.BICUBIC
    return image.transform(image.size, transform, matrix, filtering, fillcolor=MEAN)


OPERATIONS: dict[str, Operation] = {
    "auto_contrast": lambda image, strength: ImageOps.autocontrast(image),
    "equalize": lambda image, strength: ImageOps.equalize(image),
    "invert": lambda image, strength: ImageOps.invert(image),
    "rotate": lambda image, strength: image.rotate(30 * strength, Image.Resampling.BICUBIC, fillcolor=MEAN),
    "posterize": lambda image, strength: ImageOps.posterize(image, max(1, 4 - int(4 * abs(strength)))),
    "solarize": lambda image, strength: ImageOps.solarize(image, 256 - int(256 * abs(strength))),
    "solarize_add": _solarize_add,
    "color": _enhance(ImageEnhance.Color),
    "contrast": _enhance(ImageEnhance.Contrast),
    "brightness": _enhance(ImageEnhance.Brightness),
    "sharpness": _enhance(ImageEnhance.Sharpness),
    "shear_x": lambda image, strength: _affine(image, 1, 0.3 * strength, 0, 0, 1, 0),
    "shear_y": lambda image, strength: _affine(image, 1, 0, 0, 0.3 * strength, 1, 0),
    "translate_x": lambda image, strength: _affine(image, 1, 0, 0.45 * strength * image.width, 0, 1, 0),
    "translate_y": lambda image, strength: _affine(image, 1, 0, 0, 0, 1, 0.45 * strength * image.height),
}


@register("rand_augment", "RandAugment")
class RandAugment(AugmentationSpec):
    """Another augmentation, `base`, then RandAugment (Cubuk et al. 2020) with timm's operations of the policy
    rand-m9-mstd0.5-inc1, and random erasing (Zhong et al. 2020): what MAE fine-tunes with.

    Of OPERATIONS, `operations` are drawn for each image, and each is applied with probability 0.5 at strength
    m / 10, of random sign, with m from N(magnitude, deviation) and within 0 to 10. Strength 1 is: rotation by
    30 degrees, shear by 0.3, translation by 0.45 of the side; color, contrast, brightness and sharpness times
    0.1 or 1.9; 1 bit instead of 4; inversion from level 0 instead of 256 on; 110 added to levels below 128.
    With probability `erase`, a box of 2 to 33% of the image becomes noise, level by level.
    """

    base: AugmentationSpec = field(default_factory=InceptionCrop)
    """Augmentation before it, such as a random crop."""
    operations: NonNegative = 2
    """Operations drawn for an image."""
    magnitude: Annotated[float, Range(low=0, high=10)] = 9.0
    """Mean strength of an operation, of 10."""
    deviation: Annotated[float, Range(low=0)] = 0.5
    """Standard deviation of the strength."""
    erase: Probability = 0.0
    """Probability that a box is erased."""

    def source_side(self, rows: int, cols: int) -> int | None:
        return self.base.source_side(rows, cols)

    def sample(self, split: Split, indices: Indices, generator: torch.Generator) -> Images:
        images = self.base.sample(split, indices, generator)
        changed = [self._changed(image, generator) for image in images.cpu()]
        return torch.stack(changed).to(images.device)

    def _changed(self, pixels: UInt8[Tensor, "3 h w"], generator: torch.Generator) -> UInt8[Tensor, "3 h w"]:
        image = Image.fromarray(rearrange(pixels, "c h w -> h w c").numpy())
        for _ in range(self.operations):
            drawn, applied, sign = torch.rand(3, generator=generator).tolist()
            magnitude = self.magnitude + self.deviation * torch.randn((), generator=generator).item()
            strength = min(max(magnitude, 0.0), 10.0) / 10 * (1 if sign < 0.5 else -1)
            if applied < APPLIED:
                image = [*OPERATIONS.values()][int(drawn * len(OPERATIONS))](image, strength)
        changed = rearrange(torch.from_numpy(np.array(image)), "h w c -> c h w")
        return erased(changed, generator) if torch.rand((), generator=generator) < self.erase else changed


def erased(pixels: UInt8[Tensor, "3 h w"], generator: torch.Generator) -> UInt8[Tensor, "3 h w"]:
    """Return an image of which the first of ten random boxes that fits is noise, N(MEAN, DEVIATION)."""
    _, rows, cols = pixels.shape
    low, high = AREA
    for area, ratio, y, x in torch.rand(NUM_DRAWS, 4, generator=generator).tolist():
        size, aspect = rows * cols * (low + (high - low) * area), MIN_RATIO ** (2 * ratio - 1)
        height, width = round(sqrt(size * aspect)), round(sqrt(size / aspect))
        if height < rows and width < cols:
            top, left = int(y * (rows - height + 1)), int(x * (cols - width + 1))
            mean, deviation = (torch.tensor(each)[:, None, None] for each in (MEAN, DEVIATION))
            noise = mean + deviation * torch.randn(3, height, width, generator=generator)
            result = pixels.clone()
            result[:, top : top + height, left : left + width] = noise.round().clamp(0, 255).to(torch.uint8)
            return result
    return pixels
