"""Exact codes: the pixels of a position byte by byte, nothing rounded."""

import hashlib

import torch
from einops import rearrange

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images


class Bytes(Codec):
    """Each pixel of a position, in raster order, is named by its red, green and blue level of 256."""

    vocab_size = 256
    ordinal = True

    def __init__(self, grid: Grid, cell: int = 1):
        super().__init__()
        self.grid, self.patch_size, self.num_codes = grid, cell, 3 * cell**2

    def encode(self, images: Images) -> Codes:
        cells = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=self.patch_size, q=self.patch_size)
        return cells.long()

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """The levels as they are."""
        levels, rows, side = codes.to(torch.uint8), (grid or self.grid).rows, self.patch_size
        return rearrange(levels, "b (h w) (p q c) -> b c (h p) (w q)", h=rows, p=side, q=side).contiguous()

    def fingerprint(self) -> str:
        """SHA-256 of what the codes mean."""
        where = f" of {self.patch_size} x {self.patch_size}" if self.patch_size > 1 else ""
        return hashlib.sha256(f"red, green and blue bytes{where}".encode()).hexdigest()
