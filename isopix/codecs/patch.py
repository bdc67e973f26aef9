"""Patch codecs: one position is a square patch, named by what little of it is left: a mean colour, a few
colours, or a small picture in greys; or by all of it.

All is whole numbers, so that every device finds the same codes, and a code is drawn as the middle of what it
stands for, so that drawing it and reading it again gives it back.
"""

import hashlib
from math import isqrt
from typing import Literal

import torch
from einops import rearrange, reduce, repeat
from jaxtyping import Int
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.codecs.bytes import Bytes
from isopix.codecs.stateless import Fixed
from isopix.core.config import spec
from isopix.core.types import Codes, Grid, Images

Target = Literal["center_crop8", "subsample8"]
Whole = Int[Tensor, "B C H W"]  # levels 0..255 of one channel or of three

COLOUR_BITS = 5  # at most, a channel: 32,768 colours
THUMBNAIL = 8  # side in pixels of the pictures that PatchFormer decodes (section 2.1)


@spec
class MeanColour(Fixed):
    """The patch's mean colour in `bits` bits a channel: 3 bits are 512 classes (ViT, appendix B.1.2)."""

    kind: Literal["mean_colour"] = "mean_colour"
    patch: int = 16
    bits: int = 3

    def __post_init__(self) -> None:
        _check(self.patch, self.bits, COLOUR_BITS)

    @property
    def cell(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> "ColourThumbnail":
        return ColourThumbnail(grid, patch=self.patch, side=1, bits=self.bits)

    def label(self) -> str:
        return f"mean color of each {self.patch} × {self.patch} patch, {self.bits} bits per channel"

    def unit(self) -> str:
        """Return what one code stands for, as in "nats per patch"."""
        return "patch"


@spec
class DownsampledColour(Fixed):
    """The patch averaged to `side` x `side` colours of `bits` bits a channel: 16 times 512 classes (ViT,
    appendix B.1.2).
    """

    kind: Literal["downsampled_colour"] = "downsampled_colour"
    patch: int = 16
    side: int = 4
    bits: int = 3

    def __post_init__(self) -> None:
        _check(self.patch, self.bits, COLOUR_BITS)
        if self.side < 1 or self.patch % self.side:
            raise ValueError(f"patch {self.patch} cannot be cut into {self.side} x {self.side} equal parts")

    @property
    def cell(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> "ColourThumbnail":
        return ColourThumbnail(grid, patch=self.patch, side=self.side, bits=self.bits)

    def label(self) -> str:
        colors = f"{self.side} × {self.side} colors of each {self.patch} × {self.patch} patch"
        return f"{colors}, {self.bits} bits per channel"

    def unit(self) -> str:
        """Return what one code stands for, as in "nats per patch color"."""
        return "patch color"


@spec
class GreyThumbnail(Fixed):
    """8 x 8 pixels of the patch in greys of `bits` bits: 64 codes of 4 levels (PatchFormer section 2.1).

    `center_crop8` takes the pixels in the middle, the sentence of the paper that names the ground truth;
    `subsample8` every so many pixels of the whole patch, as its other sentences have it. Grey is 0.299 red,
    0.587 green and 0.114 blue. A crop needs a patch of 8 pixels or more, and of an odd side one row and
    column less is left out above and before it than behind; for `subsample8` the side is a multiple of 8.
    """

    kind: Literal["grey_thumbnail"] = "grey_thumbnail"
    patch: int = 16
    target: Target = "center_crop8"
    bits: int = 2

    def __post_init__(self) -> None:
        _check(self.patch, self.bits, 8)
        if self.patch < THUMBNAIL:
            raise ValueError(f"patch {self.patch} is smaller than {THUMBNAIL}, the side of a thumbnail")
        if self.target == "subsample8" and self.patch % THUMBNAIL:
            raise ValueError(
                f"patch {self.patch} is not a multiple of {THUMBNAIL}, as target subsample8 needs it; "
                "take target center_crop8"
            )

    @property
    def cell(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> "GreyPixels":
        return GreyPixels(grid, self)

    def label(self) -> str:
        return f"8 × 8 gray levels of each {self.patch} × {self.patch} patch, {self.bits} bits"

    def unit(self) -> str:
        """Return what one code stands for, as in "nats per gray pixel"."""
        return "gray pixel"


@spec
class WholePatch(Fixed):
    """Every pixel of the patch as it is: 256 times three levels of 256, for a regression (ViT, appendix
    B.1.2).
    """

    kind: Literal["whole_patch"] = "whole_patch"
    patch: int = 16

    def __post_init__(self) -> None:
        _check_side(self.patch)

    @property
    def cell(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> Bytes:
        return Bytes(grid, self.patch)

    def label(self) -> str:
        return f"RGB bytes of each {self.patch} × {self.patch} patch"

    def unit(self) -> str:
        """Return what one code stands for, as in "nats per sub-pixel"."""
        return "sub-pixel"


class ColourThumbnail(Codec):
    """The mean colour of each of side x side parts: red, green and blue bits, in this order."""

    def __init__(self, grid: Grid, *, patch: int, side: int, bits: int):
        super().__init__()
        self.grid, self.cell, self.side, self.bits = grid, patch, side, bits
        self.codes, self.levels = side * side, 2 ** (3 * bits)

    def encode(self, images: Images) -> Codes:
        part = self.cell // self.side
        sums = reduce(images.int(), "b c (h p) (w q) -> b c h w", "sum", p=part, q=part)
        red, green, blue = _level(sums.long() // part**2, self.bits).unbind(1)
        names = (red << 2 * self.bits) + (green << self.bits) + blue
        return rearrange(names, "b (h p) (w q) -> b (h w) (p q)", p=self.side, q=self.side)

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Each part in one colour, the middle of those with its code."""
        shifts = (2 * self.bits, self.bits, 0)
        levels = torch.stack([codes >> shift & 2**self.bits - 1 for shift in shifts], 1)
        small = _placed(_middle(levels, self.bits), grid or self.grid)
        part = self.cell // self.side
        return repeat(small, "b c h w -> b c (h p) (w q)", p=part, q=part)

    def fingerprint(self) -> str:
        """SHA-256 of what the codes mean."""
        told = (
            f"mean colours of {self.side} x {self.side} parts of {self.cell} x {self.cell}, {self.bits} bits"
        )
        return hashlib.sha256(told.encode()).hexdigest()


class GreyPixels(Codec):
    """The grey level of each pixel of an 8 x 8 thumbnail, in raster order."""

    codes = THUMBNAIL**2
    ordered = True

    def __init__(self, grid: Grid, spec: GreyThumbnail):
        super().__init__()
        self.grid, self.cell, self.levels = grid, spec.patch, 2**spec.bits
        self.bits, self.target = spec.bits, spec.target

    def encode(self, images: Images) -> Codes:
        """floor(grey / 64) for 2 bits."""
        side = self.cell
        cells = rearrange(images, "b c (h p) (w q) -> b c (h w) p q", p=side, q=side)
        red, green, blue = cells[..., self._taken(), :][..., self._taken()].long().unbind(1)
        greys = (299 * red + 587 * green + 114 * blue) // 1000
        return rearrange(_level(greys, self.bits), "b n p q -> b n (p q)")

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Grey patches: what lies around a thumbnail, or between its pixels, repeats the nearest of them."""
        small = rearrange(_middle(codes, self.bits), "b n (p q) -> b n p q", p=THUMBNAIL)
        nearest = self._nearest()
        whole = small[..., nearest, :][..., nearest]
        rows = (grid or self.grid).rows
        return repeat(whole, "b (h w) p q -> b c (h p) (w q)", h=rows, c=3)

    def _taken(self) -> slice:
        """Which rows of a patch, and which columns, the thumbnail has."""
        edge = (self.cell - THUMBNAIL) // 2
        if self.target == "center_crop8":
            return slice(edge, edge + THUMBNAIL)
        return slice(0, None, self.cell // THUMBNAIL)

    def _nearest(self) -> Tensor:
        """For each row of a patch the thumbnail's that stands for it."""
        taken = torch.arange(self.cell)[self._taken()]
        if self.target == "center_crop8":
            return (torch.arange(self.cell) - taken[0]).clamp(0, THUMBNAIL - 1)
        return torch.arange(self.cell) // (self.cell // THUMBNAIL)

    def fingerprint(self) -> str:
        """SHA-256 of what the codes mean."""
        told = f"greys of {self.bits} bits, {self.target} of {self.cell} x {self.cell}"
        return hashlib.sha256(told.encode()).hexdigest()


def _level(values: Whole, bits: int) -> Whole:
    """The first `bits` of eight."""
    return values >> 8 - bits


def _middle(levels: Int[Tensor, "..."], bits: int) -> Tensor:
    """The level, of 256, in the middle of those with these first bits."""
    return ((levels << 8 - bits) + (1 << 8 - bits >> 1)).to(torch.uint8)


def _placed(colours: Tensor, grid: Grid) -> Tensor:
    """[B C N Q] with Q parts of a square to one picture of all."""
    side = isqrt(colours.shape[-1])
    return rearrange(colours, "b c (h w) (p q) -> b c (h p) (w q)", h=grid.rows, p=side)


def _check(patch: int, bits: int, most: int) -> None:
    _check_side(patch)
    if not 1 <= bits <= most:
        raise ValueError(f"bits {bits}; allowed: 1 to {most}")


def _check_side(patch: int) -> None:
    if patch < 1:
        raise ValueError(f"patch {patch} must be at least 1")
