"""Similarity of position embeddings, and whether it follows the 2-D layout of the image or raster order."""

from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.analysis.attention import position_distances
from isopix.core.correlation import pearson_coefficient, rankdata
from isopix.core.types import Grid

SIMILARITY_DIGITS = 12  # similarities that differ by rounding errors only share a rank
MAX_MAP_VALUES = 2**16  # of all maps together

PositionTable = Float[Tensor, "N D"]
PositionSimilarity = Float[Tensor, "N N"]
PairValues = Float[np.ndarray, " pairs"]


class LayoutScores(NamedTuple):
    """Spearman correlations of position similarity with proximity over all pairs of positions, -1 to 1.

    `partial_2d` is the partial correlation with proximity in the image plane, controlling for raster order;
    `partial_raster` the converse; `plain_2d` and `plain_raster` are the correlations without control.

    `partial_2d` is 1 where similarity decreases with 2-D distance only. On a 32 x 32 grid it is 0.66 for
    sinusoids of rows and columns, -0.10 for sinusoids of the raster index (with `partial_raster` 0.84), and 0
    for random vectors.
    """

    partial_2d: float
    partial_raster: float
    plain_2d: float
    plain_raster: float


class ShuffledScores(NamedTuple):
    """Baseline of `partial_2d`: mean, standard deviation and maximum over permutations of positions."""

    mean: float
    std: float
    max: float
    permutations: int


class SimilarityMaps(NamedTuple):
    """Similarity of selected (row, column) positions to all positions, a map each."""

    rows: list[int]
    cols: list[int]
    values: Float[Tensor, "selected_rows selected_cols rows cols"]


def position_similarity(table: PositionTable) -> PositionSimilarity:
    """Return the cosine similarity of each pair of positions (Vision Transformer, figure 7, center)."""
    unit = F.normalize(table.detach().cpu().double(), dim=1)
    return unit @ unit.T


def layout_scores(similarity: PositionSimilarity, grid: Grid) -> LayoutScores:
    """Return how much the similarity follows the 2-D layout, and how much raster order.

    Raises ValueError for a grid of one row or one column, on which the two are the same.
    """
    return _scores(_pairs(_rank_matrix(similarity)), *_proximity_ranks(grid))


def shuffled_scores(
    similarity: PositionSimilarity, grid: Grid, generator: torch.Generator, permutations: int = 20
) -> ShuffledScores:
    """Return the baseline of `layout_scores` for randomly permuted positions; raises the same errors."""
    rank_matrix, proximity = _rank_matrix(similarity), _proximity_ranks(grid)
    scores = []
    for _ in range(permutations):
        order = torch.randperm(grid.positions, generator=generator).numpy()
        scores.append(_scores(_pairs(rank_matrix[np.ix_(order, order)]), *proximity).partial_2d)
    return ShuffledScores(float(np.mean(scores)), float(np.std(scores)), float(np.max(scores)), permutations)


def similarity_maps(similarity: PositionSimilarity, grid: Grid) -> SimilarityMaps:
    """Return a map for every position, or for evenly spaced ones if all maps exceed 65,536 values."""
    limit = int((MAX_MAP_VALUES / grid.positions) ** 0.5)
    rows, cols = (np.linspace(0, side - 1, min(side, limit)).round().astype(int).tolist() for side in grid)
    maps = rearrange(similarity, "(h w) (r c) -> h w r c", h=grid.rows, r=grid.rows)
    return SimilarityMaps(rows, cols, maps[rows][:, cols].float())


def _proximity_ranks(grid: Grid) -> tuple[PairValues, PairValues]:
    """Return the ranks of 2-D proximity and of raster proximity of all pairs."""
    if min(grid) < 2:
        raise ValueError(f"a grid of {grid.rows} x {grid.cols} positions has only one dimension")
    index = np.arange(grid.positions, dtype=float)
    distance_2d, distance_raster = position_distances(grid).double().numpy(), np.abs(index[:, None] - index)
    return rankdata(-_pairs(distance_2d)), rankdata(-_pairs(distance_raster))


def _scores(similarity: PairValues, proximity_2d: PairValues, proximity_raster: PairValues) -> LayoutScores:
    plain_2d = pearson_coefficient(similarity, proximity_2d) or 0.0
    plain_raster = pearson_coefficient(similarity, proximity_raster) or 0.0
    shared = pearson_coefficient(proximity_2d, proximity_raster) or 0.0
    return LayoutScores(
        _partial(plain_2d, plain_raster, shared),
        _partial(plain_raster, plain_2d, shared),
        plain_2d,
        plain_raster,
    )


def _partial(own: float, other: float, shared: float) -> float:
    """Return a partial correlation from two correlations with a variable and the one between them."""
    rest = (1 - other**2) * (1 - shared**2)
    return (own - other * shared) / rest**0.5 if rest > 0 else 0.0


def _rank_matrix(similarity: PositionSimilarity) -> Float[np.ndarray, "N N"]:
    """Return the symmetric matrix of the ranks of all pairs."""
    matrix = np.zeros(similarity.shape)
    upper = np.triu_indices(len(similarity), 1)
    matrix[upper] = rankdata(similarity.numpy()[upper].round(SIMILARITY_DIGITS))
    return matrix + matrix.T


def _pairs(matrix: Float[np.ndarray, "N N"]) -> PairValues:
    return matrix[np.triu_indices(len(matrix), 1)]
