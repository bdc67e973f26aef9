"""Resolution: the position vectors of a network for another grid than the one that it was trained on."""

from collections.abc import Mapping
from typing import Literal

from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core.types import Grid

Interpolation = Literal["bilinear", "bicubic"]
Table = Float[Tensor, "_ D"]

TABLE, ROWS, COLS = (f"backbone.positions.{name}" for name in ("table", "rows", "cols"))


def at_grid(
    tensors: Mapping[str, Tensor], old: Grid, new: Grid, mode: Interpolation = "bilinear"
) -> dict[str, Tensor]:
    """The tensors of a network with its learned or factorised positions interpolated from one grid to the
    other (ViT section 3.2); all others, a class token among them, are the same objects.
    """
    sizes = {TABLE: (old, new), ROWS: (Grid(old.rows, 1), Grid(new.rows, 1))}
    sizes[COLS] = (Grid(1, old.cols), Grid(1, new.cols))
    return {
        name: interpolated(tensor, *sizes[name], mode) if name in sizes else tensor
        for name, tensor in tensors.items()
    }


def interpolated(table: Table, old: Grid, new: Grid, mode: Interpolation = "bilinear") -> Table:
    """A vector for each position of `new`, from those of `old`, both in raster order.

    `bilinear` keeps the corners in place, as ViT's released code does; `bicubic` keeps the borders of the
    outer cells, as MAE's. Equal grids leave the table as it is.
    """
    if old == new:
        return table
    maps = rearrange(table, "(h w) d -> 1 d h w", h=old.rows)
    corners = mode == "bilinear"
    larger = F.interpolate(maps, size=(new.rows, new.cols), mode=mode, align_corners=corners)
    return rearrange(larger, "1 d h w -> (h w) d")
