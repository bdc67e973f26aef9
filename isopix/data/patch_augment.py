"""Patch augmentation: random changes, patch by patch, of the model's inputs and not of its targets."""

import abc
import math
from typing import Annotated, NamedTuple

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
# RGB to brightness and two chroma axes, in which hue is an angle (NTSC YIQ).
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


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


@register("random")
class RandomPatchAugment(PatchAugmentSpec):
    """Each patch independently, in this order: a random crop of `crop` of its side, resized back; random
    brightness, contrast, saturation and hue; a horizontal flip with probability `flip`; posterization to
    `min_bits` to 8 bits; with probability `gray`, a blend with its grayscale (PatchFormer section 2.1,
    figure 1).

    The paper gives only the two probabilities and the bits. The strengths of the color changes are those of
    Inception: brightness by up to 32 of 255 levels, contrast and saturation by factors of 0.5 to 1.5, hue by
    up to 0.2 of a turn, all times `strength`; and 14 of 16 pixels for the crop.
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
        draw = _Uniform(len(pixels), generator, images.device)
        pixels = random_resized_crop(pixels, round(self.crop * patch_size), draw.uniform(), draw.uniform())
        pixels = color_jitter(pixels, self._color_jitter(draw))
        pixels = torch.where(_per_pixel(draw.uniform() < self.flip), pixels.flip(3), pixels)
        bits = self.min_bits + (draw.uniform() * (9 - self.min_bits)).floor()
        pixels = blend_grayscale(posterize(pixels, bits), draw.uniform() * (draw.uniform() < self.gray))
        augmented = rearrange(
            pixels, "(b h w) c p q -> b c (h p) (w q)", b=len(images), h=images.shape[2] // patch_size
        )
        return augmented.round().clamp(0, 255).to(torch.uint8)

    def _color_jitter(self, draw: "_Uniform") -> "ColorJitter":
        brightness, contrast, saturation, hue = (self.strength * (2 * draw.uniform() - 1) for _ in range(4))
        return ColorJitter(32 * brightness, 1 + 0.5 * contrast, 1 + 0.5 * saturation, 0.2 * hue)

    def label(self) -> str:
        return "per-patch random crop, color jitter, flip, posterize, grayscale"


class ColorJitter(NamedTuple):
    """The color changes of each patch: brightness in levels, two factors, and hue in turns."""

    brightness: PerPatch
    contrast: PerPatch
    saturation: PerPatch
    hue: PerPatch


class _Uniform:
    """Random numbers for each patch, drawn on the CPU, so that they are the same on every device."""

    def __init__(self, count: int, generator: torch.Generator, device: torch.device):
        self.count, self.generator, self.device = count, generator, device

    def uniform(self) -> PerPatch:
        return torch.rand(self.count, generator=self.generator).to(self.device, non_blocking=True)


def random_resized_crop(pixels: Patches, size: int, y: PerPatch, x: PerPatch) -> Patches:
    """Crop a square of `size` pixels per side from each patch and resize it to the patch, bilinearly.

    `y` and `x` in [0, 1) select one of the possible positions.
    """
    side = pixels.shape[2]
    rows, cols = (_resampling(((side - size + 1) * draw).floor(), size, side) for draw in (y, x))
    return torch.einsum("nrh, nchw, nsw -> ncrs", rows, pixels, cols)


def color_jitter(pixels: Patches, jitter: ColorJitter) -> Patches:
    """Add brightness, scale contrast around the patch's mean color, rotate hue and scale saturation."""
    pixels = pixels + _per_pixel(jitter.brightness)
    mean = pixels.mean((2, 3), keepdim=True)
    pixels = mean + _per_pixel(jitter.contrast) * (pixels - mean)
    to_yiq = torch.tensor(YIQ)
    to_rgb, to_yiq = (matrix.to(pixels.device) for matrix in (torch.linalg.inv(to_yiq), to_yiq))
    angle = 2 * math.pi * jitter.hue
    cosine, sine = jitter.saturation * angle.cos(), jitter.saturation * angle.sin()
    one, zero = torch.ones_like(angle), torch.zeros_like(angle)
    entries = [one, zero, zero, zero, cosine, -sine, zero, sine, cosine]
    rotation = rearrange(entries, "(i j) n -> n i j", i=3)
    return torch.einsum("nij, njhw -> nihw", to_rgb @ rotation @ to_yiq, pixels).clamp(0, 255)


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
