"""Position embeddings, vectors that encode where a token is, and pools, which reduce tokens to one."""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core import choices
from isopix.core.registry import register
from isopix.core.types import Grid, PositionIndices, Tokens
from isopix.model.init import EMBEDDING, Draw, InitScheme, InitTable, ModelPart, Normal

Heads = Float[Tensor, "*B heads _ size"]
PositionTable = Float[Tensor, "_ D"]  # a row for each position
Interpolation = Literal["bilinear", "bicubic"]
SINCOS_BASE = 10_000.0  # the longest wavelength is 2 pi times as many positions
INIT: dict[InitScheme, Draw] = {**EMBEDDING, "openai": Normal(0.01)}


class PositionEmbedding(nn.Module, abc.ABC):
    """Adds a vector for each position to tokens."""

    if TYPE_CHECKING:

        def __call__(self, tokens: Tokens) -> Tokens: ...

    @abc.abstractmethod
    def vectors(self) -> PositionTable:
        """Return the vectors of all positions."""

    def forward(self, tokens: Tokens) -> Tokens:
        return self.from_position(tokens, 0)

    def from_position(self, tokens: Tokens, start: int) -> Tokens:
        """Add the vectors of the positions from `start` on, one per token."""
        return tokens + self.vectors()[start : start + tokens.shape[1]]

    def at(self, tokens: Tokens, positions: PositionIndices) -> Tokens:
        return tokens + self.vectors()[positions]


class Rotation(nn.Module, abc.ABC):
    """Rotates queries and keys by their positions."""

    if TYPE_CHECKING:

        def __call__(self, heads: Heads, positions: slice | PositionIndices) -> Heads: ...

    @abc.abstractmethod
    def forward(self, heads: Heads, positions: slice | PositionIndices) -> Heads:
        """Return the queries or keys [B heads N size] of N positions: a slice, or [B N] of each image."""


class PositionEmbeddingSpec(ModelPart, noun="positions"):
    """Settings of position embeddings."""

    rotates: ClassVar[bool] = False  # whether it has a `rotation`, which needs the whole grid

    @abc.abstractmethod
    def build(self, grid: Grid, width: int) -> PositionEmbedding:
        """Return the module that adds position embeddings to tokens."""

    def rotation(self, grid: Grid, size: int) -> Rotation:
        """Return the module that rotates queries and keys of `size` channels."""
        raise NotImplementedError


@register("learned", "learned position embeddings")
class LearnedPositionEmbeddingSpec(PositionEmbeddingSpec):
    """One learned vector for each position, independent of its neighbors (iGPT section 2.2)."""

    def build(self, grid: Grid, width: int) -> "TablePositionEmbedding":
        return TablePositionEmbedding(nn.Parameter(torch.zeros(grid.positions, width)))

    def init(self, scheme: InitScheme) -> InitTable:
        return {"table": INIT[scheme]}


@register("factorized", "learned row and column embeddings")
class FactorizedPositionEmbeddingSpec(PositionEmbeddingSpec):
    """One learned vector for each row and one for each column, summed (PatchFormer section 2.1)."""

    def build(self, grid: Grid, width: int) -> "FactorizedPositionEmbedding":
        return FactorizedPositionEmbedding(grid, width)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"rows": INIT[scheme], "cols": INIT[scheme]}


@register("sincos", "fixed sine and cosine position embeddings")
class SinCosPositionEmbeddingSpec(PositionEmbeddingSpec):
    """Fixed sines and cosines of column and row, half of the channels each (MAE's code, `pos_embed.py`):
    sin(p w_k), then cos(p w_k), with w_k = 10000^(-4 k / D) for k < D / 4.
    """

    def build(self, grid: Grid, width: int) -> "TablePositionEmbedding":
        return TablePositionEmbedding(nn.Buffer(sincos_table(grid, width)))


@register("rotary", "rotary position embeddings in two dimensions")
class RotaryPositionEmbeddingSpec(PositionEmbeddingSpec):
    """Queries and keys rotated by angles row * w_k and column * w_k, half of the channels each, with w_k =
    base^(-4 k / size) for k < size / 4 (RoFormer, Su et al. 2021, section 3.2, in each of two dimensions).
    """

    rotates: ClassVar[bool] = True

    base: Annotated[float, choices.Range(above=1)] = 100.0
    """Longest wavelength, as a multiple of 2 pi positions."""

    def build(self, grid: Grid, width: int) -> "NoPositionEmbedding":
        return NoPositionEmbedding(grid, width)

    def rotation(self, grid: Grid, size: int) -> "RotaryRotation":
        return RotaryRotation(grid, size, self.base)


@register("none", "no position embeddings")
class NoPositionEmbeddingSpec(PositionEmbeddingSpec):
    """No position embeddings, for blocks that depend on positions by construction."""

    def build(self, grid: Grid, width: int) -> "NoPositionEmbedding":
        return NoPositionEmbedding(grid, width)


class TablePositionEmbedding(PositionEmbedding):
    """The table is a parameter, or a saved buffer, so that an imported or interpolated one is kept."""

    def __init__(self, table: nn.Parameter | nn.Buffer):
        super().__init__()
        self.table = table

    def vectors(self) -> PositionTable:
        return self.table


class FactorizedPositionEmbedding(PositionEmbedding):
    def __init__(self, grid: Grid, width: int):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(grid.rows, width))
        self.cols = nn.Parameter(torch.zeros(grid.cols, width))

    def vectors(self) -> PositionTable:
        return rearrange(self.rows[:, None] + self.cols, "h w d -> (h w) d")


def sincos_table(grid: Grid, width: int) -> PositionTable:
    """Return the vectors of `SinCosPositionEmbeddingSpec`, computed in float64, as float32."""
    if width % 4:
        raise ValueError(f"width {width} is not a multiple of 4, which sincos position embeddings need")
    frequencies = SINCOS_BASE ** -(torch.arange(width // 4, dtype=torch.float64) * 4 / width)
    row, col = (torch.arange(count, dtype=torch.float64)[:, None] * frequencies for count in grid)
    rows = repeat(torch.cat([row.sin(), row.cos()], 1), "h d -> (h w) d", w=grid.cols)
    cols = repeat(torch.cat([col.sin(), col.cos()], 1), "w d -> (h w) d", h=grid.rows)
    return torch.cat([cols, rows], 1).float()


class NoPositionEmbedding(PositionEmbedding):
    """Adds nothing, without adding zeros."""

    def __init__(self, grid: Grid, width: int):
        super().__init__()
        self.shape = grid.positions, width

    def vectors(self) -> PositionTable:
        return torch.zeros(self.shape)

    def from_position(self, tokens: Tokens, start: int) -> Tokens:
        return tokens

    def at(self, tokens: Tokens, positions: PositionIndices) -> Tokens:
        return tokens


class RotaryRotation(Rotation):
    """Rotates channels k and k + size / 2 of `size` together."""

    def __init__(self, grid: Grid, size: int, base: float):
        super().__init__()
        if size % 4:
            raise ValueError(f"{size} channels a head are not a multiple of 4, which positions=rotary needs")
        frequencies = base ** -(torch.arange(size // 4, dtype=torch.float64) * 4 / size)
        row, col = (torch.arange(count, dtype=torch.float64)[:, None] * frequencies for count in grid)
        rows, cols = repeat(row, "h k -> (h w) k", w=grid.cols), repeat(col, "w k -> (h w) k", h=grid.rows)
        angles = torch.cat([rows, cols, rows, cols], 1)
        self.cos = nn.Buffer(angles.cos().float(), persistent=False)
        sign = torch.ones(size).index_fill_(0, torch.arange(size // 2), -1.0)
        self.sin = nn.Buffer(angles.sin().float() * sign, persistent=False)

    def forward(self, heads: Heads, positions: slice | PositionIndices) -> Heads:
        cos, sin = self.cos[positions].to(heads.dtype), self.sin[positions].to(heads.dtype)
        if cos.ndim == 3:  # of each image
            cos, sin = cos[:, None], sin[:, None]
        return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), sin)


def resize_pos_embed(
    tensors: Mapping[str, Tensor], old: Grid, new: Grid, mode: Interpolation = "bilinear"
) -> dict[str, Tensor]:
    """Return a network's tensors with position embeddings interpolated between grids (ViT section 3.2)."""
    sizes = {
        "backbone.positions.table": (old, new),
        "backbone.positions.rows": (Grid(old.rows, 1), Grid(new.rows, 1)),
        "backbone.positions.cols": (Grid(1, old.cols), Grid(1, new.cols)),
    }
    return {
        name: interpolate_pos_embed(tensor, *sizes[name], mode) if name in sizes else tensor
        for name, tensor in tensors.items()
    }


def interpolate_pos_embed(
    table: PositionTable, old: Grid, new: Grid, mode: Interpolation = "bilinear"
) -> PositionTable:
    """Return a table with a row for each position of `new`, from one for `old`, both in raster order.

    `bilinear` aligns the corners (ViT's code); `bicubic` aligns the borders of the outer positions (MAE's).
    """
    if old == new:
        return table
    maps = rearrange(table, "(h w) d -> 1 d h w", h=old.rows)
    resized = F.interpolate(maps, size=(new.rows, new.cols), mode=mode, align_corners=mode == "bilinear")
    return rearrange(resized, "1 d h w -> (h w) d")


Pool = choices.Pool
AllTokens = Float[Tensor, "B _ D"]  # prefix tokens (a class token), then all positions in raster order
Pooled = Float[Tensor, "B _"]  # `pooled_width` features

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
        needed = f"{size} x {size} positions or more"
        raise ValueError(f"pool {pool} needs {needed}, and there are {grid.rows} x {grid.cols}")
