"""Position embeddings resized to another grid than the one that a network was trained on."""

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


def resize_pos_embed(
    tensors: Mapping[str, Tensor], old: Grid, new: Grid, mode: Interpolation = "bilinear"
) -> dict[str, Tensor]:
    """Return the tensors of a network with its learned or factorized position embeddings interpolated from
    one grid to the other (ViT section 3.2); all others, a class token among them, are the same objects.
    """
    sizes = {TABLE: (old, new), ROWS: (Grid(old.rows, 1), Grid(new.rows, 1))}
    sizes[COLS] = (Grid(1, old.cols), Grid(1, new.cols))
    return {
        name: interpolate_pos_embed(tensor, *sizes[name], mode) if name in sizes else tensor
        for name, tensor in tensors.items()
    }


def interpolate_pos_embed(table: Table, old: Grid, new: Grid, mode: Interpolation = "bilinear") -> Table:
    """Return a table with a row for each position of `new`, from one for `old`, both in raster order.

    `bilinear` aligns the corners, as ViT's released code does; `bicubic` aligns the borders of the outer
    positions, as MAE's. Equal grids leave the table as it is.
    """
    if old == new:
        return table
    maps = rearrange(table, "(h w) d -> 1 d h w", h=old.rows)
    resized = F.interpolate(maps, size=(new.rows, new.cols), mode=mode, align_corners=mode == "bilinear")
    return rearrange(resized, "1 d h w -> (h w) d")
