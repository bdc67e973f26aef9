"""Patch augmentation: random changes, patch by patch, of the model's inputs and not of its targets."""

import abc
from typing import Annotated

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.choices import Probability, Range
from isopix.core.registry import Part, register
from isopix.core.types import Images

Patches = Float[Tensor, "patches 3 side side"]  # levels 0..255
PerPatch = Float[Tensor, "patches"]

LUMA = (0.299, 0.587, 0.114)
EPSILON = 1e-6  # of a level: a gray pixel has no hue


class PatchAugmentSpec(Part, noun="patch_augment"):
    """Settings of a patch augmentation."""

    @abc.abstractmethod
    def apply(self, images: Images, patch_size: int, generator: torch.Generator) -> Images:
        """Return the images with each patch changed at random, as a function of `generator` alone."""


@register("none")
class NoPatchAugment(PatchAugmentSpec):
    """The pixels unchanged."""

    def apply(self, images: Images, patch_size: int, generator: torch.Generator) -> Images:
        return images


@register("random", "per-patch random crop, color jitter, flip, posterize, grayscale")
class RandomPatchAugment(PatchAugmentSpec):
    """Each patch independently: a random crop of `crop` of its side, resized back; random brightness,
    contrast, saturation and hue; a flip with probability `flip`; posterization to `min_bits` to 8 bits; with
    probability `gray`, a blend with its grayscale (PatchFormer section 2.1, figure 1).

    The paper gives only the probabilities and bits. Colors change as in Inception, times `strength`:
    brightness by 32 of 255 levels, contrast by 0.5 to 1.5, in HSV saturation by 0.5 to 1.5 and hue by 0.2 of
    a turn.
    """

    crop: Annotated[float, Range(above=0, high=1)] = 0.875
    """Side of the crop, as a fraction of that of the patch."""
    strength: Probability = 1.0
    """Factor of the strengths of the color changes."""
    flip: Probability = 0.2
    """Probability of a horizontal flip."""
    min_bits: Annotated[int, Range(low=1, high=8)] = 2
    """Fewest bits per channel after posterization."""
    gray: Probability = 0.2
    """Probability of a blend with the grayscale."""

    def apply(self, images: Images, patch_size: int, generator: torch.Generator) -> Images:
        pixels = rearrange(images, "b c (h p) (w q) -> (b h w) c p q", p=patch_size, q=patch_size).float()

        def uniform() -> PerPatch:  # drawn on the CPU, so that numbers are the same on every device
            return torch.rand(len(pixels), generator=generator).to(images.device, non_blocking=True)

        pixels = random_resized_crop(pixels, round(self.crop * patch_size), uniform(), uniform())
        brightness, contrast, saturation, hue = (self.strength * (2 * uniform() - 1) for _ in range(4))
        pixels = color_jitter(pixels, 32 * brightness, 1 + 0.5 * contrast, 1 + 0.5 * saturation, 0.2 * hue)
        pixels = torch.where(_per_pixel(uniform() < self.flip), pixels.flip(3), pixels)
        pixels = posterize(pixels, self.min_bits + (uniform() * (9 - self.min_bits)).floor())
        pixels = blend_grayscale(pixels, uniform() * (uniform() < self.gray))
        rows = images.shape[2] // patch_size
        pixels = rearrange(pixels, "(b h w) c p q -> b c (h p) (w q)", b=len(images), h=rows)
        return pixels.round().clamp(0, 255).to(torch.uint8)


def random_resized_crop(pixels: Patches, size: int, y: PerPatch, x: PerPatch) -> Patches:
    """Crop a square of `size` pixels, at `y` and `x` in [0, 1), and resize it to the patch, bilinearly."""
    side = pixels.shape[2]
    rows, cols = (_resampling(((side - size + 1) * draw).floor(), size, side) for draw in (y, x))
    return torch.einsum("nrh, nchw, nsw -> ncrs", rows, pixels, cols)


def color_jitter(
    pixels: Patches, brightness: PerPatch, contrast: PerPatch, saturation: PerPatch, hue: PerPatch
) -> Patches:
    """Add brightness (levels), scale contrast about the mean color, scale saturation, rotate hue (turns)."""
    pixels = pixels + _per_pixel(brightness)
    mean = pixels.mean((2, 3), keepdim=True)
    pixels = mean + _per_pixel(contrast) * (pixels - mean)
    return adjust_hsv(pixels.clamp(0, 255), _per_pixel(saturation), _per_pixel(hue))


def adjust_hsv(pixels: Patches, saturation: Tensor, hue: Tensor) -> Patches:
    """Scale the saturation, to at most 1, and rotate the hue (turns) of HSV, as Inception's preprocessing."""
    value, largest = pixels.max(1, keepdim=True)
    chroma = value - pixels.amin(1, keepdim=True)
    after, before = (pixels.gather(1, (largest + channel) % 3) for channel in (1, 2))
    sixths = 2 * largest + (after - before) / chroma.clamp(min=EPSILON) + 6 * hue
    red_green_blue = torch.tensor([5.0, 3.0, 1.0], device=pixels.device).view(3, 1, 1)
    position = (red_green_blue + sixths) % 6
    missing = torch.minimum(position, 4 - position).clamp(0, 1)  # of the value: 0 in the largest channel
    return value - torch.minimum(saturation * chroma, value) * missing


def posterize(pixels: Patches, bits: PerPatch) -> Patches:
    """Keep the first `bits` of eight, and rescale to 0..255."""
    step, top = _per_pixel(2 ** (8 - bits)), _per_pixel(2**bits - 1)
    return (pixels.round() / step).floor() * 255 / top


def blend_grayscale(pixels: Patches, fraction: PerPatch) -> Patches:
    """Mix `fraction` of each patch's grayscale with the rest of its colors."""
    gray = torch.einsum("c, nchw -> nhw", torch.tensor(LUMA, device=pixels.device), pixels)[:, None]
    return pixels + _per_pixel(fraction) * (gray - pixels)


def _resampling(start: PerPatch, size: int, side: int) -> Float[Tensor, "patches side side"]:
    """Return bilinear weights: row i has those of output pixel i, over start .. start + size - 1."""
    position = (torch.arange(side, device=start.device) + 0.5) * size / side - 0.5
    position = position.clamp(0, size - 1) + start[:, None]
    distance = position[..., None] - torch.arange(side, device=start.device)
    return (1 - distance.abs()).clamp(min=0)


def _per_pixel(values: Tensor) -> Tensor:
    return values[:, None, None, None]
