"""Codecs without a palette: a pixel's bytes, or a patch as a mean color, colors, thumbnail or all its bytes.

Integer arithmetic gives the same codes on every device; a code is decoded to the middle of its values.
"""

import hashlib
from typing import Annotated, Literal

import torch
from einops import rearrange, reduce, repeat
from jaxtyping import Int
from torch import Tensor

from isopix.codecs.base import Codec, StatelessCodecSpec
from isopix.core.choices import Count, Range
from isopix.core.registry import register
from isopix.core.types import Codes, Grid, Images

Thumbnail = Literal["center_crop", "subsample"]
Levels = Int[Tensor, "B C H W"]  # levels 0..255 of one channel or of three

ColorBits = Annotated[int, Range(low=1, high=5)]  # per channel: at most 32,768 colors
THUMBNAIL_SIDE = 8  # side in pixels of the images that PatchFormer predicts (section 2.1)


class PatchSpec(StatelessCodecSpec):
    """Settings of a codec of square patches."""

    patch_size: Count = 16
    """Side of a patch in pixels."""

    @property
    def patches(self) -> str:
        return f"each {self.patch_size} × {self.patch_size} patch"


@register("bytes", "RGB bytes")
class BytesSpec(StatelessCodecSpec):
    """The three channels of each pixel, unchanged."""

    patch_size = 1

    def unit(self) -> str:
        return "sub-pixel"

    def build(self, grid: Grid) -> "Bytes":
        return Bytes(grid)


@register("full_patch")
class FullPatchSpec(PatchSpec):
    """Every pixel of the patch: 256 times three levels of 256, for a regression (ViT, appendix B.1.2)."""

    def build(self, grid: Grid) -> "Bytes":
        return Bytes(grid, self.patch_size)

    def label(self) -> str:
        return f"RGB bytes of {self.patches}"

    def unit(self) -> str:
        return "sub-pixel"


@register("mean_color")
class MeanColorSpec(PatchSpec):
    """The patch's mean color with `bits` bits per channel: 3 bits are 512 classes (ViT, appendix B.1.2)."""

    bits: ColorBits = 3
    """Bits per channel."""

    def build(self, grid: Grid) -> "MeanColorCodec":
        return MeanColorCodec(grid, patch_size=self.patch_size, side=1, bits=self.bits)

    def label(self) -> str:
        return f"mean color of {self.patches}, {self.bits} bits per channel"


@register("downsampled_color")
class DownsampledColorSpec(PatchSpec):
    """The patch averaged to `side` x `side` colors of `bits` bits: 16 codes of 512 (ViT, appendix B.1.2)."""

    side: Count = 4
    """Side of the thumbnail, in colors."""
    bits: ColorBits = 3
    """Bits per channel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patch_size % self.side:
            raise ValueError(f"patch_size {self.patch_size} is not a multiple of side {self.side}")

    def build(self, grid: Grid) -> "MeanColorCodec":
        return MeanColorCodec(grid, patch_size=self.patch_size, side=self.side, bits=self.bits)

    def label(self) -> str:
        return f"{self.side} × {self.side} colors of {self.patches}, {self.bits} bits per channel"

    def unit(self) -> str:
        return "patch color"


@register("gray_thumbnail")
class GrayThumbnailSpec(PatchSpec):
    """8 x 8 pixels of the patch as `bits`-bit gray levels: 64 codes of 4 levels (PatchFormer section 2.1).

    The paper describes the pixels in two ways: `center_crop` takes those in the middle of the patch, which
    has 8 or more a side; `subsample` takes them at equal distances, of a side that is a multiple of 8.
    """

    patch_size: Annotated[int, Range(low=THUMBNAIL_SIDE)] = 16
    """Side of a patch in pixels."""
    thumbnail: Thumbnail = "center_crop"
    """`center_crop` or `subsample`: which pixels of the patch."""
    bits: Annotated[int, Range(low=1, high=8)] = 2
    """Bits per gray level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thumbnail == "subsample" and self.patch_size % THUMBNAIL_SIDE:
            allowed = f"a multiple of {THUMBNAIL_SIDE} with thumbnail=subsample"
            raise ValueError(f"patch_size is {self.patch_size}; allowed: {allowed}")

    def build(self, grid: Grid) -> "GrayThumbnailCodec":
        return GrayThumbnailCodec(grid, self)

    def label(self) -> str:
        return f"8 × 8 gray levels of {self.patches}, {self.bits} bits"

    def unit(self) -> str:
        return "gray pixel"


class Bytes(Codec):
    """The red, green and blue levels, 256 each, of every pixel of a position, in raster order."""

    vocab_size = 256
    ordinal = True

    def __init__(self, grid: Grid, patch_size: int = 1):
        super().__init__()
        self.grid, self.patch_size, self.num_codes = grid, patch_size, 3 * patch_size**2
        self.points_per_side = patch_size

    def encode(self, images: Images) -> Codes:
        side = self.patch_size
        return rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=side, q=side).long()

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        levels, rows, side = codes.to(torch.uint8), (grid or self.grid).rows, self.patch_size
        return rearrange(levels, "b (h w) (p q c) -> b c (h p) (w q)", h=rows, p=side, q=side).contiguous()

    def values_per_code(self) -> Int[Tensor, " K"]:
        return torch.ones(self.vocab_size, dtype=torch.int64)

    def fingerprint(self) -> str:
        where = f" of {self.patch_size} x {self.patch_size}" if self.patch_size > 1 else ""
        return _sha256(f"red, green and blue bytes{where}")


class MeanColorCodec(Codec):
    """The mean color of each of side x side parts of a patch: red, green and blue bits, in this order."""

    def __init__(self, grid: Grid, *, patch_size: int, side: int, bits: int):
        super().__init__()
        self.grid, self.patch_size, self.side, self.bits = grid, patch_size, side, bits
        self.num_codes, self.vocab_size = side * side, 2 ** (3 * bits)
        self.points_per_side = side

    def encode(self, images: Images) -> Codes:
        part = self.patch_size // self.side
        sums = reduce(images.int(), "b c (h p) (w q) -> b c h w", "sum", p=part, q=part)
        red, green, blue = _quantize(sums.long() // part**2, self.bits).unbind(1)
        codes = (red << 2 * self.bits) + (green << self.bits) + blue
        return rearrange(codes, "b (h p) (w q) -> b (h w) (p q)", p=self.side, q=self.side)

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Return images of parts in one color each, the middle of the colors with that code."""
        shifts = (2 * self.bits, self.bits, 0)
        levels = torch.stack([codes >> shift & 2**self.bits - 1 for shift in shifts], 1)
        colors, rows, side = _dequantize(levels, self.bits), (grid or self.grid).rows, self.side
        small = rearrange(colors, "b c (h w) (p q) -> b c (h p) (w q)", h=rows, p=side)
        part = self.patch_size // side
        return repeat(small, "b c h w -> b c (h p) (w q)", p=part, q=part)

    def fingerprint(self) -> str:
        parts = f"{self.side} x {self.side} parts of {self.patch_size} x {self.patch_size}"
        return _sha256(f"mean colors of {parts}, {self.bits} bits")


class GrayThumbnailCodec(Codec):
    """The gray level of each pixel of an 8 x 8 thumbnail, in raster order."""

    num_codes, points_per_side = THUMBNAIL_SIDE**2, THUMBNAIL_SIDE
    ordinal = True

    def __init__(self, grid: Grid, spec: GrayThumbnailSpec):
        super().__init__()
        self.grid, self.patch_size, self.vocab_size = grid, spec.patch_size, 2**spec.bits
        self.bits, self.thumbnail = spec.bits, spec.thumbnail

    def encode(self, images: Images) -> Codes:
        """Return the first `bits` of each gray level: floor(gray / 64) for 2 bits."""
        side, pixels = self.patch_size, self._pixels()
        patches = rearrange(images, "b c (h p) (w q) -> b c (h w) p q", p=side, q=side)
        red, green, blue = patches[..., pixels, :][..., pixels].long().unbind(1)
        gray = (299 * red + 587 * green + 114 * blue) // 1000
        return rearrange(_quantize(gray, self.bits), "b n p q -> b n (p q)")

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Return grayscale patches; pixels outside the thumbnail repeat its nearest pixel."""
        small = rearrange(_dequantize(codes, self.bits), "b n (p q) -> b n p q", p=THUMBNAIL_SIDE)
        nearest = torch.arange(self.patch_size)  # row of the thumbnail for each row of a patch
        if self.thumbnail == "center_crop":
            nearest = (nearest - self._pixels().start).clamp(0, THUMBNAIL_SIDE - 1)
        else:
            nearest = nearest // (self.patch_size // THUMBNAIL_SIDE)
        patches = small[..., nearest, :][..., nearest]
        return repeat(patches, "b (h w) p q -> b c (h p) (w q)", h=(grid or self.grid).rows, c=3)

    def _pixels(self) -> slice:
        edge = (self.patch_size - THUMBNAIL_SIDE) // 2
        if self.thumbnail == "center_crop":
            return slice(edge, edge + THUMBNAIL_SIDE)
        return slice(0, None, self.patch_size // THUMBNAIL_SIDE)

    def fingerprint(self) -> str:
        return _sha256(f"{self.bits}-bit gray, {self.thumbnail} of {self.patch_size} x {self.patch_size}")


def _quantize(values: Levels, bits: int) -> Levels:
    return values >> 8 - bits


def _dequantize(levels: Int[Tensor, "..."], bits: int) -> Tensor:
    return ((levels << 8 - bits) + (1 << 8 - bits >> 1)).to(torch.uint8)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
