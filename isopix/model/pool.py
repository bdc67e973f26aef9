"""Pooling: reduce the tokens of an image to one vector."""

from typing import get_args

from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core import choices
from isopix.core.types import Grid

Pool = choices.Pool
AllTokens = Float[Tensor, "B _ D"]  # prefix tokens (a class token), then all positions in raster order
Pooled = Float[Tensor, "B _"]  # `pooled_width` features

POOLS: tuple[Pool, ...] = get_args(Pool)
GRID_SIZES: dict[Pool, int] = {"grid2": 2, "grid4": 4}  # rows and columns of cells


def default_pool(num_prefix_tokens: int) -> Pool:
    """Return the pool of a network: its class token if it has one (ViT, eq. 4), else the mean (iGPT)."""
    return "first" if num_prefix_tokens else "mean"


def pool_tokens(tokens: AllTokens, pool: Pool, grid: Grid, num_prefix_tokens: int = 0) -> Pooled:
    """Reduce the tokens of a grid of positions to one float32 vector per image.

    `mean` (iGPT section 2.4; ViT, appendix D.3), `max` and `flatten` are over all positions; `grid2` and
    `grid4` are means over cells, as in adaptive average pooling. `last` is the last position, `first` the
    first token: a class token if there is one (ViT, eq. 4).
    """
    require_pool(pool, grid)
    positions = tokens[:, num_prefix_tokens:].float()
    match pool:
        case "mean":
            return positions.mean(1)
        case "max":
            return positions.amax(1)
        case "flatten":
            return rearrange(positions, "b n d -> b (n d)")
        case "first" | "last":
            return tokens[:, 0 if pool == "first" else -1].float()
    maps = rearrange(positions, "b (r c) d -> b d r c", r=grid.rows)
    return rearrange(F.adaptive_avg_pool2d(maps, GRID_SIZES[pool]), "b d r c -> b (r c d)")


def pooled_width(pool: Pool, grid: Grid, width: int) -> int:
    """Return the number of features of an image whose tokens have `width` channels."""
    return width * (grid.positions if pool == "flatten" else GRID_SIZES.get(pool, 1) ** 2)


def require_pool(pool: Pool, grid: Grid) -> None:
    """Raise ValueError for a pool of more cells than the grid has rows or columns."""
    size = GRID_SIZES.get(pool, 1)
    if min(grid) < size:
        raise ValueError(
            f"pool {pool} needs {size} x {size} positions or more, and there are {grid.rows} x {grid.cols}"
        )
