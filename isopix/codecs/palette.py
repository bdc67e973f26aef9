"""Palette codec: the code of a pixel is the nearest of K colors."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int, Int32
from torch import Tensor

from isopix.codecs import nearest_color
from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images

COLOR_TENSOR = "codec.color_bits"  # its name in a checkpoint
BREAK_EVEN = 2**27  # distances that take about as long as the table; both give the same codes


class Palette(Codec):
    """The nearest of K colors for each pixel: iGPT's 9-bit codes (section 3.2).

    Distances are squared, over red, green and blue in levels of 0..255, and exact for colors in 1/65536 of a
    level; ties go to the lower index. `decode` rounds the colors to whole levels.
    """

    color_bits: Int32[Tensor, "K 3"]  # float32 viewed as int32, so that `half()` does not change the colors
    table: Tensor | None  # the code of each of the 2^24 colors, built when it pays off
    base: Tensor
    num_codes = 1
    patch_size = 1

    def __init__(self, colors: Float[Tensor, "K 3"], grid: Grid):
        super().__init__()
        check_num_colors(len(colors))
        low, high = float(colors.min()), float(colors.max())
        if not (low >= 0 and high <= 255):  # also true of NaN
            raise ValueError(f"palette values range from {low:g} to {high:g}; allowed: 0 to 255")
        self.grid = grid
        self.vocab_size = len(colors)
        self.num_distances = 0
        self.register_buffer("color_bits", colors.float().contiguous().view(torch.int32))
        self.register_buffer("table", None, persistent=False)
        # A tensor, because converting a number takes longer than multiplying the pixels of one image by it.
        self.register_buffer("base", torch.tensor(256, dtype=torch.int32), persistent=False)
        self.register_load_state_dict_post_hook(_delete_table)  # type: ignore[no-untyped-call]

    @property
    def colors(self) -> Float[Tensor, "K 3"]:
        return self.color_bits.view(torch.float32)

    @property
    def fixed_point_colors(self) -> nearest_color.FixedPointColors:
        """The colors in 1/65536 of a level, from which distances are computed."""
        return nearest_color.fixed_point(self.colors)

    def encode(self, images: Images) -> Codes:
        """Return the nearest colors; by a table of all 2^24 once enough pixels have been encoded."""
        if self.table is None and images.device.type == "cpu":
            self.num_distances += images[:, 0].numel() * self.vocab_size
            if self.num_distances <= BREAK_EVEN:
                pixels = rearrange(images, "b c h w -> (b h w) c")
                return nearest_color.nearest_codes(self.fixed_point_colors, pixels).view(len(images), -1, 1)
        self.build_table()
        assert self.table is not None
        base, (red, green, blue) = self.base, images.unbind(1)
        index = red.int().mul_(base).add_(green).mul_(base).add_(blue)
        return self.table.index_select(0, index.flatten()).long().view(len(images), -1, 1)

    def build_table(self) -> None:
        """Build the lookup table (32 MiB, under a second) if there is none; call before `torch.compile`."""
        if self.table is None:
            colors = self.fixed_point_colors
            self.table = nearest_color.lookup_table(colors.cpu()).to(colors.device)

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Return the colors rounded to whole levels (half to even)."""
        levels = self.colors.round().to(torch.uint8)
        return rearrange(levels[codes], "b (h w) 1 c -> b c h w", h=(grid or self.grid).rows).contiguous()

    def values_per_code(self) -> Int[Tensor, " K"]:
        """Return how many of the 2^24 colors are encoded as each code; a color like another may have none."""
        self.build_table()
        assert self.table is not None
        parts = torch.split(self.table.cpu(), 2**20)  # as int64 a part takes 8 MiB
        counts = torch.zeros(self.vocab_size, dtype=torch.int64)
        for part in parts:
            counts += torch.bincount(part.long(), minlength=self.vocab_size)
        return counts

    def fingerprint(self) -> str:
        """Return the SHA-256 of the fixed-point colors, in their order."""
        return hashlib.sha256(self.fixed_point_colors.cpu().numpy().astype("<i4").tobytes()).hexdigest()


def stored_colors(tensors: Mapping[str, Tensor]) -> Float[Tensor, "K 3"] | None:
    """Return the palette of the tensors of a checkpoint, in levels 0..255; None if it has none."""
    return tensors[COLOR_TENSOR].view(torch.float32) if COLOR_TENSOR in tensors else None


def check_num_colors(num_colors: int) -> None:
    """Raise ValueError if a palette cannot have that many colors."""
    if not 1 <= num_colors <= nearest_color.MAX_COLORS:
        raise ValueError(f"the palette has {num_colors} colors; allowed: 1 to {nearest_color.MAX_COLORS}")


def _delete_table(palette: Palette, _keys: Any) -> None:
    palette.table = None
