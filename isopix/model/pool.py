"""Pooling: reduce the tokens of an image to one vector."""

from collections.abc import Callable
from functools import partial

from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core import choices
from isopix.core.types import Grid

Pool = choices.Pool
AllTokens = Float[Tensor, "B _ D"]  # prefix tokens (a class token), then all positions in raster order
Pooled = Float[Tensor, "B _"]  # `pooled_width` features

GRID_SIZES: dict[Pool, int] = {"grid2": 2, "grid4": 4}  # rows and columns of cells


def default_pool(num_prefix_tokens: int) -> Pool:
    """Return the pool of a network: its class token if it has one (ViT, eq. 4), else the mean (iGPT)."""
    return "first" if num_prefix_tokens else "mean"


def pool_tokens(tokens: AllTokens, pool: Pool, grid: Grid, num_prefix_tokens: int = 0) -> Pooled:
    """Reduce the tokens of a grid of positions to one float32 vector per image.

    Raises ValueError for a pool of more cells than the grid has rows or columns.
    """
    require_pool(pool, grid)
    return POOLS[pool](tokens, grid, num_prefix_tokens)


def pooled_width(pool: Pool, grid: Grid, width: int) -> int:
    """Return the number of features of an image whose tokens have `width` channels."""
    if pool == "flatten":
        return grid.positions * width
    return GRID_SIZES.get(pool, 1) ** 2 * width


def require_pool(pool: Pool, grid: Grid) -> None:
    """Raise ValueError for a pool of more cells than the grid has rows or columns."""
    size = GRID_SIZES.get(pool, 1)
    if min(grid) < size:
        raise ValueError(
            f"pool {pool} needs {size} x {size} positions or more, and there are {grid.rows} x {grid.cols}"
        )


def mean(tokens: AllTokens, grid: Grid, num_prefix_tokens: int) -> Pooled:
    """Mean over positions (iGPT section 2.4), without prefix tokens (ViT, appendix D.3)."""
    return tokens[:, num_prefix_tokens:].float().mean(1)


def last(tokens: AllTokens, grid: Grid, num_prefix_tokens: int) -> Pooled:
    """The last position in raster order."""
    return tokens[:, -1].float()


def maximum(tokens: AllTokens, grid: Grid, num_prefix_tokens: int) -> Pooled:
    """Maximum of each channel over positions, without prefix tokens."""
    return tokens[:, num_prefix_tokens:].float().amax(1)


def first(tokens: AllTokens, grid: Grid, num_prefix_tokens: int) -> Pooled:
    """The first token: a class token if there is one (ViT, eq. 4; PatchFormer section 2.1)."""
    return tokens[:, 0].float()


def grid_means(tokens: AllTokens, grid: Grid, num_prefix_tokens: int, *, size: int) -> Pooled:
    """Means over `size` x `size` cells of the grid, without prefix tokens, cell by cell in raster order.

    Cells overlap by a row or a column where the grid is not divisible, as in adaptive average pooling.
    """
    positions = tokens[:, num_prefix_tokens:].float()
    channels_first = rearrange(positions, "b (r c) d -> b d r c", r=grid.rows, c=grid.cols)
    return rearrange(F.adaptive_avg_pool2d(channels_first, size), "b d r c -> b (r c d)")


def all_positions(tokens: AllTokens, grid: Grid, num_prefix_tokens: int) -> Pooled:
    """All positions in raster order, without prefix tokens."""
    return rearrange(tokens[:, num_prefix_tokens:].float(), "b n d -> b (n d)")


POOLS: dict[Pool, Callable[[AllTokens, Grid, int], Pooled]] = {
    "mean": mean,
    "last": last,
    "max": maximum,
    "first": first,
    **{name: partial(grid_means, size=size) for name, size in GRID_SIZES.items()},
    "flatten": all_positions,
}
