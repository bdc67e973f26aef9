"""Palette codec: the code of a pixel is the nearest of K colors."""

import hashlib
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int32
from torch import Tensor

from isopix.codecs import nearest_color
from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images

BREAK_EVEN = 2**27  # distances that take about as long as the table; both give the same codes


class Palette(Codec):
    """The nearest of K colors for each pixel: iGPT's 9-bit codes (section 3.2).

    Distances are squared differences summed over red, green and blue in levels of 0..255, which gives the
    same order as OpenAI's x / 127.5 - 1. They are exact (see `nearest_color`); ties go to the lower index, on
    every device. Colors are stored as integers, in 1/65536 of a level, so that casting a model to half
    precision does not change them.
    """

    fixed: Int32[Tensor, "K 3"]  # fixed-point colors
    table: Tensor | None  # the code of each of the 2^24 colors, built when it pays off
    base: Tensor
    num_codes = 1
    patch_size = 1

    def __init__(self, colors: Float[Tensor, "K 3"], grid: Grid):
        """Colors in levels 0..255. Raises ValueError if one, after decoding, is nearer to another."""
        super().__init__()
        _check_values(colors)
        self.grid = grid
        self.vocab_size = len(colors)
        self.num_distances = 0
        self.register_buffer("fixed", (colors.double() * nearest_color.FIXED_POINT_SCALE).round().int())
        self.register_buffer("table", None, persistent=False)
        # A tensor, because converting a number takes longer than multiplying the pixels of one image by it.
        self.register_buffer("base", torch.tensor(256, dtype=torch.int32), persistent=False)
        self.register_load_state_dict_post_hook(_delete_table)  # type: ignore[no-untyped-call]
        self._check_round_trip()

    @property
    def colors(self) -> Float[Tensor, "K 3"]:
        """The colors in levels 0..255; exact in float32."""
        return self.fixed / nearest_color.FIXED_POINT_SCALE

    def encode(self, images: Images) -> Codes:
        """Return the nearest colors; by a table of all 2^24 once enough pixels have been encoded."""
        if self.table is None and images.device.type == "cpu":
            self.num_distances += images[:, 0].numel() * self.vocab_size
            if self.num_distances <= BREAK_EVEN:
                pixels = rearrange(images, "b c h w -> (b h w) c")
                return nearest_color.nearest_codes(self.fixed, pixels).view(len(images), -1, 1)
        self.build_table()
        assert self.table is not None
        base, (red, green, blue) = self.base, images.unbind(1)
        index = red.int().mul_(base).add_(green).mul_(base).add_(blue)
        return self.table.index_select(0, index.flatten()).long().view(len(images), -1, 1)

    def build_table(self) -> None:
        """Build the lookup table (32 MiB, under a second) if there is none; call before `torch.compile`."""
        if self.table is None:
            self.table = nearest_color.lookup_table(self.fixed.cpu()).to(self.fixed.device)

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Return the colors rounded to whole levels (half to even)."""
        levels = self.colors.round().to(torch.uint8)
        return rearrange(levels[codes], "b (h w) 1 c -> b c h w", h=(grid or self.grid).rows).contiguous()

    def fingerprint(self) -> str:
        """Return the SHA-256 of the colors, in their order."""
        return hashlib.sha256(self.fixed.cpu().numpy().astype("<i4").tobytes()).hexdigest()

    def _check_round_trip(self) -> None:
        found = nearest_color.nearest_codes(self.fixed.cpu(), self.colors.round().to(torch.uint8).cpu())
        wrong = (found != torch.arange(self.vocab_size)).nonzero().flatten().tolist()
        if wrong:
            one, other = wrong[0], int(found[wrong[0]])
            raise ValueError(
                f"palette colors {one} and {other} are too close: "
                f"{one}, rounded to whole levels, would be encoded as {other}"
            )


def check_num_colors(num_colors: int) -> None:
    """Raise ValueError if a palette cannot have that many colors."""
    if not 1 <= num_colors <= nearest_color.MAX_COLORS:
        raise ValueError(f"the palette has {num_colors} colors; allowed: 1 to {nearest_color.MAX_COLORS}")


def _check_values(colors: Float[Tensor, "K 3"]) -> None:
    check_num_colors(len(colors))
    low, high = float(colors.min()), float(colors.max())
    if not (low >= 0 and high <= 255):  # also true of NaN
        raise ValueError(f"palette values range from {low:g} to {high:g}; allowed: 0 to 255")


def _delete_table(palette: Palette, _keys: Any) -> None:
    palette.table = None
