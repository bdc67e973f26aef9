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
from isopix.core.registry import register
from isopix.core.types import Codes, Grid, Images

Target = Literal["center_crop8", "subsample8"]
Whole = Int[Tensor, "B C H W"]  # levels 0..255 of one channel or of three

COLOUR_BITS = 5  # at most, a channel: 32,768 colours
THUMBNAIL = 8  # side in pixels of the pictures that PatchFormer decodes (section 2.1)


@register("mean_colour")
class MeanColour(Fixed):
    """The patch's mean colour in `bits` bits a channel: 3 bits are 512 classes (ViT, appendix B.1.2)."""

    patch: int = 16
    bits: int = 3

    def __post_init__(self) -> None:
        _check(self.patch, self.bits, COLOUR_BITS)

    @property
    def patch_size(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> "ColourThumbnail":
        return ColourThumbnail(grid, patch=self.patch, side=1, bits=self.bits)


@register("downsampled_colour")
class DownsampledColour(Fixed):
    """The patch averaged to `side` x `side` colours of `bits` bits a channel: 16 times 512 classes (ViT,
    appendix B.1.2).
    """

    patch: int = 16
    side: int = 4
    bits: int = 3

    def __post_init__(self) -> None:
        _check(self.patch, self.bits, COLOUR_BITS)
        if self.side < 1 or self.patch % self.side:
            raise ValueError(f"patch {self.patch} cannot be cut into {self.side} x {self.side} equal parts")

    @property
    def patch_size(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> "ColourThumbnail":
        return ColourThumbnail(grid, patch=self.patch, side=self.side, bits=self.bits)


@register("grey_thumbnail")
class GreyThumbnail(Fixed):
    """8 x 8 pixels of the patch in greys of `bits` bits: 64 codes of 4 levels (PatchFormer section 2.1).

    `center_crop8` takes the pixels in the middle, the sentence of the paper that names the ground truth;
    `subsample8` every so many pixels of the whole patch, as its other sentences have it. Grey is 0.299 red,
    0.587 green and 0.114 blue. A crop needs a patch of 8 pixels or more, and of an odd side one row and
    column less is left out above and before it than behind; for `subsample8` the side is a multiple of 8.
    """

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
    def patch_size(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> "GreyPixels":
        return GreyPixels(grid, self)


@register("whole_patch")
class WholePatch(Fixed):
    """Every pixel of the patch as it is: 256 times three levels of 256, for a regression (ViT, appendix
    B.1.2).
    """

    patch: int = 16

    def __post_init__(self) -> None:
        _check_side(self.patch)

    @property
    def patch_size(self) -> int:
        return self.patch

    def build(self, grid: Grid) -> Bytes:
        return Bytes(grid, self.patch)


class ColourThumbnail(Codec):
    """The mean colour of each of side x side parts: red, green and blue bits, in this order."""

    def __init__(self, grid: Grid, *, patch: int, side: int, bits: int):
        super().__init__()
        self.grid, self.patch_size, self.side, self.bits = grid, patch, side, bits
        self.num_codes, self.vocab_size = side * side, 2 ** (3 * bits)

    def encode(self, images: Images) -> Codes:
        part = self.patch_size // self.side
        sums = reduce(images.int(), "b c (h p) (w q) -> b c h w", "sum", p=part, q=part)
        red, green, blue = _level(sums.long() // part**2, self.bits).unbind(1)
        names = (red << 2 * self.bits) + (green << self.bits) + blue
        return rearrange(names, "b (h p) (w q) -> b (h w) (p q)", p=self.side, q=self.side)

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Each part in one colour, the middle of those with its code."""
        shifts = (2 * self.bits, self.bits, 0)
        levels = torch.stack([codes >> shift & 2**self.bits - 1 for shift in shifts], 1)
        small = _placed(_middle(levels, self.bits), grid or self.grid)
        part = self.patch_size // self.side
        return repeat(small, "b c h w -> b c (h p) (w q)", p=part, q=part)

    def fingerprint(self) -> str:
        """SHA-256 of what the codes mean."""
        parts = f"{self.side} x {self.side} parts of {self.patch_size} x {self.patch_size}"
        told = f"mean colours of {parts}, {self.bits} bits"
        return hashlib.sha256(told.encode()).hexdigest()


class GreyPixels(Codec):
    """The grey level of each pixel of an 8 x 8 thumbnail, in raster order."""

    num_codes = THUMBNAIL**2
    ordinal = True

    def __init__(self, grid: Grid, spec: GreyThumbnail):
        super().__init__()
        self.grid, self.patch_size, self.vocab_size = grid, spec.patch, 2**spec.bits
        self.bits, self.target = spec.bits, spec.target

    def encode(self, images: Images) -> Codes:
        """floor(grey / 64) for 2 bits."""
        side = self.patch_size
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
        edge = (self.patch_size - THUMBNAIL) // 2
        if self.target == "center_crop8":
            return slice(edge, edge + THUMBNAIL)
        return slice(0, None, self.patch_size // THUMBNAIL)

    def _nearest(self) -> Tensor:
        """For each row of a patch the thumbnail's that stands for it."""
        taken = torch.arange(self.patch_size)[self._taken()]
        if self.target == "center_crop8":
            return (torch.arange(self.patch_size) - taken[0]).clamp(0, THUMBNAIL - 1)
        return torch.arange(self.patch_size) // (self.patch_size // THUMBNAIL)

    def fingerprint(self) -> str:
        """SHA-256 of what the codes mean."""
        told = f"greys of {self.bits} bits, {self.target} of {self.patch_size} x {self.patch_size}"
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
