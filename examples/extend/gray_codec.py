"""A codec of 16 gray levels: one 4-bit code per pixel.

isopix pretrain igpt.digits --plugin examples/extend/gray_codec.py codec=gray4 --out runs/gray4
"""

import torch
from einops import rearrange, repeat

from isopix import parts

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
LEVELS = 16


@parts.register("gray4")
class GraySpec(parts.StatelessCodecSpec):
    """The brightness of each pixel in 4 bits."""

    @property
    def patch_size(self) -> int:
        return 1

    def label(self) -> str:
        return "4-bit grayscale"

    def unit(self) -> str:
        return "pixel"

    def build(self, grid: parts.Grid) -> "GrayCodec":
        return GrayCodec(grid)


class GrayCodec(parts.Codec):
    """Code k stands for the gray levels 16 k to 16 k + 15, and is decoded as 16 k + 8."""

    num_codes, vocab_size, patch_size, ordinal = 1, LEVELS, 1, True

    def __init__(self, grid: parts.Grid):
        super().__init__()
        self.grid = grid

    def encode(self, images: parts.Images) -> parts.Codes:
        luma = torch.einsum(
            "b c h w, c -> b h w", images.float(), images.new_tensor(LUMA, dtype=torch.float32)
        )
        return rearrange((luma.round() // LEVELS).long().clamp(0, LEVELS - 1), "b h w -> b (h w) 1")

    def decode(self, codes: parts.Codes, grid: parts.Grid | None = None) -> parts.Images:
        gray = (codes * LEVELS + LEVELS // 2).to(torch.uint8)
        return repeat(gray, "b (h w) 1 -> b c h w", h=(grid or self.grid).rows, c=3).contiguous()

    def fingerprint(self) -> str:
        return "gray4: luma // 16"
