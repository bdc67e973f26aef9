"""Noise: what is done to the pixels that a network is shown in training, patch by patch; never to what it
must name.
"""

import math
from typing import Literal, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from isopix.core.config import spec
from isopix.core.types import Images

Cells = Float[Tensor, "cells 3 side side"]  # levels 0..255
Lots = Float[Tensor, "cells"]

LUMA = (0.299, 0.587, 0.114)
# Red, green and blue to brightness and two axes of colour, in which hue is an angle (NTSC's YIQ).
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@spec
class NoNoise:
    """The pixels as they are."""

    kind: Literal["none"] = "none"

    def disturb(self, images: Images, cell: int, generator: torch.Generator) -> Images:
        return images

    def label(self) -> str:
        return "none"


@spec
class PatchNoise:
    """Each patch on its own, in this order: a random crop of `crop` of its side, enlarged back; brightness,
    contrast, saturation and hue moved at random; mirrored with chance `flip`; cut to 2 to 8 bits; with chance
    `grey`, blended with its grey (PatchFormer section 2.1, figure 1).

    The paper names no strengths but the two chances and the bits. Ours of colour are Inception's: brightness
    by up to 32 of 255 levels, contrast and saturation by factors of 0.5 to 1.5, hue by up to 0.2 of a turn,
    all times `strength`; and 14 of 16 pixels for the crop.
    """

    kind: Literal["patch"] = "patch"
    crop: float = 0.875
    strength: float = 1.0
    flip: float = 0.2
    fewest_bits: int = 2
    grey: float = 0.2

    def __post_init__(self) -> None:
        for name in ("strength", "flip", "grey"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} {getattr(self, name)} must lie in [0, 1]")
        if not 0 < self.crop <= 1:
            raise ValueError(f"crop {self.crop} must lie in (0, 1]")
        if not 1 <= self.fewest_bits <= 8:
            raise ValueError(f"fewest_bits {self.fewest_bits}; allowed: 1 to 8")

    def disturb(self, images: Images, cell: int, generator: torch.Generator) -> Images:
        """The images with each cell x cell patch changed, by chance that comes from `generator` alone."""
        pixels = rearrange(images, "b c (h p) (w q) -> (b h w) c p q", p=cell, q=cell).float()
        lots = _Lots(len(pixels), generator, images.device)
        pixels = jittered(pixels, round(self.crop * cell), lots.uniform(), lots.uniform())
        pixels = coloured(pixels, self._colour(lots))
        pixels = torch.where(_wide(lots.uniform() < self.flip), pixels.flip(3), pixels)
        bits = self.fewest_bits + (lots.uniform() * (9 - self.fewest_bits)).floor()
        pixels = blended(quantised(pixels, bits), lots.uniform() * (lots.uniform() < self.grey))
        shown = rearrange(
            pixels, "(b h w) c p q -> b c (h p) (w q)", b=len(images), h=images.shape[2] // cell
        )
        return shown.round().clamp(0, 255).to(torch.uint8)

    def _colour(self, lots: "_Lots") -> "Colour":
        brightness, contrast, saturation, hue = (self.strength * (2 * lots.uniform() - 1) for _ in range(4))
        return Colour(32 * brightness, 1 + 0.5 * contrast, 1 + 0.5 * saturation, 0.2 * hue)

    def label(self) -> str:
        return "per-patch random crop, color jitter, flip, posterize, grayscale"


Noise = NoNoise | PatchNoise


class Colour(NamedTuple):
    """How the colours of each patch are moved: levels, two factors, and turns of hue."""

    brightness: Lots
    contrast: Lots
    saturation: Lots
    hue: Lots


class _Lots:
    """Numbers for each patch, drawn on the CPU, so that every device sees the same."""

    def __init__(self, count: int, generator: torch.Generator, device: torch.device):
        self.count, self.generator, self.device = count, generator, device

    def uniform(self) -> Lots:
        return torch.rand(self.count, generator=self.generator).to(self.device, non_blocking=True)


def jittered(pixels: Cells, kept: int, down: Lots, across: Lots) -> Cells:
    """A square of `kept` pixels a side of each patch, at a place of (down, across) in [0, 1) of those that
    there are, enlarged to the whole patch linearly.
    """
    side = pixels.shape[2]
    rows, cols = (_resampling(((side - kept + 1) * lot).floor(), kept, side) for lot in (down, across))
    return torch.einsum("nrh, nchw, nsw -> ncrs", rows, pixels, cols)


def coloured(pixels: Cells, colour: Colour) -> Cells:
    """Brightness is added; contrast grows from the patch's mean colour; hue and saturation turn and scale the
    two axes of colour.
    """
    pixels = pixels + _wide(colour.brightness)
    mean = pixels.mean((2, 3), keepdim=True)
    pixels = mean + _wide(colour.contrast) * (pixels - mean)
    to = torch.tensor(YIQ)
    back, to = (matrix.to(pixels.device) for matrix in (torch.linalg.inv(to), to))
    angle = 2 * math.pi * colour.hue
    cosine, sine = colour.saturation * angle.cos(), colour.saturation * angle.sin()
    one, none = torch.ones_like(angle), torch.zeros_like(angle)
    turns = [one, none, none, none, cosine, -sine, none, sine, cosine]
    turn = rearrange(turns, "(i j) n -> n i j", i=3)
    return torch.einsum("nij, njhw -> nihw", back @ turn @ to, pixels).clamp(0, 255)


def quantised(pixels: Cells, bits: Lots) -> Cells:
    """The first so many bits of eight, stretched to 0..255 again."""
    step, top = _wide(2 ** (8 - bits)), _wide(2**bits - 1)
    return (pixels.round() / step).floor() * 255 / top


def blended(pixels: Cells, share: Lots) -> Cells:
    """So large a share of each patch's grey, and the rest of its colours."""
    grey = torch.einsum("c, nchw -> nhw", torch.tensor(LUMA, device=pixels.device), pixels)[:, None]
    return pixels + _wide(share) * (grey - pixels)


def _resampling(start: Lots, kept: int, side: int) -> Float[Tensor, "cells side side"]:
    """Rows of weights: pixel i of the patch from the two next to its place in start .. start + kept - 1."""
    place = (torch.arange(side, device=start.device) + 0.5) * kept / side - 0.5
    place = place.clamp(0, kept - 1) + start[:, None]
    distance = place[..., None] - torch.arange(side, device=start.device)
    return (1 - distance.abs()).clamp(min=0)


def _wide(lots: Tensor) -> Tensor:
    return lots[:, None, None, None]
