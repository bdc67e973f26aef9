"""Byte codec: the exact red, green and blue bytes of each position."""

import hashlib

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from isopix.codecs.base import Codec, StatelessCodecSpec
from isopix.core.registry import register
from isopix.core.types import Codes, Grid, Images


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
        """Return ones: every code is one level of one channel."""
        return torch.ones(self.vocab_size, dtype=torch.int64)

    def fingerprint(self) -> str:
        side = self.patch_size
        where = f" of {side} x {side}" if side > 1 else ""
        return hashlib.sha256(f"red, green and blue bytes{where}".encode()).hexdigest()


@register("bytes")
class BytesSpec(StatelessCodecSpec):
    """The three channels of each pixel, unchanged."""

    def label(self) -> str:
        return "RGB bytes"

    def unit(self) -> str:
        return "sub-pixel"

    @property
    def patch_size(self) -> int:
        return 1

    def build(self, grid: Grid) -> Bytes:
        return Bytes(grid)
