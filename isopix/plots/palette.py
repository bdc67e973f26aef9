"""The colors of a palette, arranged by hue and lightness."""

import math

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

PaletteColors = Float[Tensor, "K 3"]  # levels 0 to 255
GRAY_CHROMA = 0.025  # OKLab chroma below which a color is sorted as gray
MAX_SINGLE_ROW = 32  # colors; larger palettes are shown in several rows


def arrange_colors(colors: PaletteColors) -> Float[Tensor, "rows cols 3"]:
    """Return columns of similar hue, grays first, each from light to dark; unused tiles are white."""
    rows = 1 if len(colors) <= MAX_SINGLE_ROW else round(math.sqrt(len(colors) / 2))
    cols = math.ceil(len(colors) / rows)
    lab = oklab(colors)
    hue = torch.atan2(lab[:, 2], lab[:, 1])
    hue[lab[:, 1:].norm(dim=1) < GRAY_CHROMA] = -4.0  # before every angle
    order = torch.stack([hue, lab[:, 0]], dim=1).tolist()
    ranked = sorted(range(len(colors)), key=lambda i: order[i])
    tiles = torch.full((cols, rows, 3), 255.0)
    for column in range(cols):
        part = sorted(ranked[column * rows : (column + 1) * rows], key=lambda i: -order[i][1])
        tiles[column, : len(part)] = colors[part].round()
    return rearrange(tiles, "cols rows c -> rows cols c")


def oklab(colors: PaletteColors) -> Float[Tensor, "K 3"]:
    """Return OKLab lightness, green-red and blue-yellow coordinates of sRGB levels (Ottosson 2020)."""
    srgb = colors / 255
    linear = torch.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    cones = linear @ torch.tensor(
        [
            [0.4122214708, 0.2119034982, 0.0883024619],
            [0.5363325363, 0.6806995451, 0.2817188376],
            [0.0514459929, 0.1073969566, 0.6299787005],
        ]
    )
    return cones ** (1 / 3) @ torch.tensor(
        [
            [0.2104542553, 1.9779984951, 0.0259040371],
            [0.7936177850, -2.4285922050, 0.7827717662],
            [-0.0040720468, 0.4505937099, -0.8086757660],
        ]
    )
