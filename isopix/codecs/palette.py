"""Palette codec: each pixel is named by the nearest of K colours."""

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
    """Each pixel is named by the nearest of K colours: iGPT's 9-bit codes (section 3.2).

    Distances are squared differences summed over red, green and blue in levels of 0..255, which orders
    colours as OpenAI's x / 127.5 - 1 does. They are exact (see `nearest`); ties go to the lower index, on
    every device. The colours are kept to 1/65536 of a level, as whole numbers, so that casting a model to
    half precision cannot move them.
    """

    fixed: Int32[Tensor, "K 3"]
    table: Tensor | None  # the code of each of the 2^24 colours; built when it is worth it
    base: Tensor
    num_codes = 1
    patch_size = 1

    def __init__(self, colours: Float[Tensor, "K 3"], grid: Grid):
        """Colours in levels 0..255. Raises ValueError if one, as `decode` shows it, is nearer to another."""
        super().__init__()
        _check_values(colours)
        self.grid = grid
        self.vocab_size = len(colours)
        self.compared = 0
        self.register_buffer("fixed", (colours.double() * nearest_color.ONE).round().int())
        self.register_buffer("table", None, persistent=False)
        # A tensor, because wrapping a number costs more than multiplying the pixels of one image by it.
        self.register_buffer("base", torch.tensor(256, dtype=torch.int32), persistent=False)
        self.register_load_state_dict_post_hook(_forget_table)  # type: ignore[no-untyped-call]
        self._check_round_trip()

    @property
    def colours(self) -> Float[Tensor, "K 3"]:
        """The colours in levels 0..255; exact in float32."""
        return self.fixed / nearest_color.ONE

    def encode(self, images: Images) -> Codes:
        """The nearest colours, by a table of all 2^24 once that has become worth building."""
        if self.table is None and images.device.type == "cpu":
            self.compared += images[:, 0].numel() * self.vocab_size
            if self.compared <= BREAK_EVEN:
                pixels = rearrange(images, "b c h w -> (b h w) c")
                return nearest_color.search(self.fixed, pixels).view(len(images), -1, 1)
        self.prepare()
        assert self.table is not None
        base, (red, green, blue) = self.base, images.unbind(1)
        index = red.int().mul_(base).add_(green).mul_(base).add_(blue)
        return self.table.index_select(0, index.flatten()).long().view(len(images), -1, 1)

    def prepare(self) -> None:
        """The table, built now (under a second, 32 MiB) if there is none; call it before `torch.compile`."""
        if self.table is None:
            self.table = nearest_color.table(self.fixed.cpu()).to(self.fixed.device)

    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """The colours rounded to whole levels (half to even)."""
        shown = self.colours.round().to(torch.uint8)
        return rearrange(shown[codes], "b (h w) 1 c -> b c h w", h=(grid or self.grid).rows).contiguous()

    def fingerprint(self) -> str:
        """SHA-256 of the colours, in their order."""
        return hashlib.sha256(self.fixed.cpu().numpy().astype("<i4").tobytes()).hexdigest()

    def _check_round_trip(self) -> None:
        found = nearest_color.search(self.fixed.cpu(), self.colours.round().to(torch.uint8).cpu())
        wrong = (found != torch.arange(self.vocab_size)).nonzero().flatten().tolist()
        if wrong:
            one, other = wrong[0], int(found[wrong[0]])
            raise ValueError(
                f"palette colours {one} and {other} are too close: "
                f"{one}, rounded to whole levels, would be read as {other}"
            )


def check_number(colours: int) -> None:
    """Raises ValueError if no palette can have so many colours."""
    if not 1 <= colours <= nearest_color.MOST:
        raise ValueError(
            f"a palette of {colours} colours is not possible; allowed: 1 to {nearest_color.MOST}"
        )


def _check_values(colours: Float[Tensor, "K 3"]) -> None:
    check_number(len(colours))
    low, high = float(colours.min()), float(colours.max())
    if not (low >= 0 and high <= 255):  # also true of NaN
        raise ValueError(f"palette values run from {low:g} to {high:g}; allowed: 0 to 255")


def _forget_table(palette: Palette, _keys: Any) -> None:
    palette.table = None
