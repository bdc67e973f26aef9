"""The colors of a palette, arranged by hue and lightness."""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

PaletteColors = Float[Tensor, "K 3"]  # levels 0 to 255
GRAY = 0.1  # saturation below which a color is sorted as gray
LUMA = (0.299, 0.587, 0.114)
MAX_SINGLE_ROW = 32  # colors; larger palettes are shown in several rows


def arrange_colors(colors: PaletteColors) -> Float[Tensor, "rows cols 3"]:
    """Return columns of similar hue, grays first, each from light to dark; unused tiles are white."""
    from matplotlib.colors import rgb_to_hsv  # noqa: PLC0415

    rows = 1 if len(colors) <= MAX_SINGLE_ROW else round(math.sqrt(len(colors) / 2))
    cols = math.ceil(len(colors) / rows)
    hue, saturation, _ = rgb_to_hsv(colors.numpy() / 255).T
    hue[saturation < GRAY] = -1  # before every angle
    order = [*zip(hue, colors.numpy() @ LUMA, strict=True)]
    ranked = sorted(range(len(colors)), key=lambda i: order[i])
    tiles = torch.full((cols, rows, 3), 255.0)
    for column in range(cols):
        part = sorted(ranked[column * rows : (column + 1) * rows], key=lambda i: -order[i][1])
        tiles[column, : len(part)] = colors[part].round()
    return rearrange(tiles, "cols rows c -> rows cols c")
