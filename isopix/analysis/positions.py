"""Position embeddings looked at: which places they take for alike, and whether a network that was told
nothing of rows has found out that images have two dimensions.
"""

from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional as F

from isopix.analysis.attention import distances
from isopix.core.correlation import pearson_coefficient
from isopix.core.types import Grid

DIGITS = 12  # of a similarity; places that are equally alike but for rounding rank equally
MAP_NUMBERS = 2**16  # of all maps of a picture together

Table = Float[Tensor, "N D"]
Similarity = Float[Tensor, "N N"]
Line = Float[np.ndarray, " pairs"]


class Plane(NamedTuple):
    """What similarity of positions follows, by Spearman's rank correlation over all pairs, -1 to 1.

    `planar` is its correlation with nearness in the plane of the image, what raster order explains being
    taken away (a partial correlation), and `raster` the other way round. Planar is 1 where similarity falls
    with distance in the plane and nothing else; over 32 x 32 it is 0.66 for sines and cosines of rows and of
    columns, -0.10 for those of a sequence (whose raster is 0.84), and 0 for random vectors. `near_plane` and
    `near_raster` are the same two before anything is taken away; they are correlated.
    """

    planar: float
    raster: float
    near_plane: float
    near_raster: float


class Chance(NamedTuple):
    """The planar score of the same vectors at shuffled places: mean, deviation and largest of so many."""

    mean: float
    deviation: float
    largest: float
    shuffles: int


class Maps(NamedTuple):
    """Similarity of some positions with all: of each (row, column) a map [rows cols]."""

    rows: list[int]
    cols: list[int]
    values: Float[Tensor, "picked_rows picked_cols rows cols"]


def similarity(table: Table) -> Similarity:
    """Cosine of each two positions' vectors (Vision Transformer, figure 7, centre)."""
    unit = F.normalize(table.detach().cpu().double(), dim=1)
    return unit @ unit.T


def plane(alike: Similarity, grid: Grid) -> Plane:
    """How 2-D these positions are. Raises ValueError for a grid of a single row or column, on which both
    orders are one.
    """
    return _plane(_pairs(_ranked(alike)), *_nearness(grid))


def chance(alike: Similarity, grid: Grid, generator: torch.Generator, shuffles: int = 20) -> Chance:
    """What `plane` finds if each vector stands at another's place. Raises what `plane` raises."""
    ranked, near = _ranked(alike), _nearness(grid)
    found = []
    for _ in range(shuffles):
        order = torch.randperm(grid.positions, generator=generator).numpy()
        found.append(_plane(_pairs(ranked[np.ix_(order, order)]), *near).planar)
    return Chance(float(np.mean(found)), float(np.std(found)), float(np.max(found)), shuffles)


def maps(alike: Similarity, grid: Grid) -> Maps:
    """A map for every position, or where that would be more than 65,536 numbers for evenly spaced ones."""
    most = int((MAP_NUMBERS / grid.positions) ** 0.5)
    rows, cols = (np.linspace(0, side - 1, min(side, most)).round().astype(int).tolist() for side in grid)
    every = rearrange(alike, "(h w) (r c) -> h w r c", h=grid.rows, r=grid.rows)
    return Maps(rows, cols, every[rows][:, cols].float())


def _nearness(grid: Grid) -> tuple[Line, Line]:
    """Ranks of nearness in the plane and in raster order, of all pairs."""
    if min(grid) < 2:
        raise ValueError(f"a grid of {grid.rows} x {grid.cols} has no two dimensions to find")
    place = np.arange(grid.positions, dtype=float)
    in_plane, in_order = distances(grid).double().numpy(), np.abs(place[:, None] - place)
    return rankdata(-_pairs(in_plane)), rankdata(-_pairs(in_order))


def _plane(alike: Line, near_plane: Line, near_raster: Line) -> Plane:
    plane, raster = (
        pearson_coefficient(alike, near_plane) or 0.0,
        pearson_coefficient(alike, near_raster) or 0.0,
    )
    shared = pearson_coefficient(near_plane, near_raster) or 0.0
    return Plane(_partial(plane, raster, shared), _partial(raster, plane, shared), plane, raster)


def _partial(own: float, other: float, shared: float) -> float:
    """Of two correlations with the same thing, that of the first where the second is held still."""
    left = (1 - other**2) * (1 - shared**2)
    return (own - other * shared) / left**0.5 if left > 0 else 0.0


def _ranked(alike: Similarity) -> Float[np.ndarray, "N N"]:
    """The similarities of each two positions as ranks, in their places."""
    found = np.zeros(alike.shape)
    one, other = np.triu_indices(len(alike), 1)
    found[one, other] = rankdata(alike.numpy()[one, other].round(DIGITS))
    return found + found.T


def _pairs(square: Float[np.ndarray, "N N"]) -> Line:
    return square[np.triu_indices(len(square), 1)]
