"""Similarity of position embeddings, and whether it follows the 2-D layout of the image or raster order."""

from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.analysis.base import Analysis, AnalysisInput, Numbers, rounded
from isopix.analysis.embeddings import SIMILARITY_DIGITS
from isopix.core.random import generator
from isopix.core.registry import register
from isopix.core.stats import pearson_coefficient, rankdata
from isopix.core.text import Table
from isopix.core.types import Grid
from isopix.model.network import Network
from isopix.plots.embeddings import plot_position_similarity

MIN_VARIANCE_LEFT = 1e-6  # share of the variance of similarity within the groups of pairs that are compared
MAX_MAP_VALUES = 2**16  # of all maps together

PositionTable = Float[Tensor, "N D"]
PositionSimilarity = Float[Tensor, "N N"]
PairValues = Float[np.ndarray, " pairs"]
PairGroups = Int[np.ndarray, " pairs"]


class LayoutScores(NamedTuple):
    """Spearman correlations of position similarity with proximity over all pairs of positions, -1 to 1.

    `partial_2d` is that with proximity in the image plane among pairs of the same distance in raster order,
    and 0 where similarity is a function of raster distance. `partial_raster` is that with proximity in raster
    order among pairs of the same row and the same column distance, and 0 where it is a function of these.
    """

    partial_2d: float
    partial_raster: float


class ShuffledScores(NamedTuple):
    """Baseline of `partial_2d`: mean, standard deviation and maximum over permutations of positions."""

    mean: float
    std: float
    max: float
    permutations: int


def position_similarity(table: PositionTable) -> PositionSimilarity:
    """Return the cosine similarity of each pair of positions (Vision Transformer, figure 7, center)."""
    unit = F.normalize(table.detach().cpu().double(), dim=1)
    return unit @ unit.T


def layout_scores(similarity: PositionSimilarity, grid: Grid) -> LayoutScores:
    """Return how much the similarity follows the 2-D layout, and how much raster order."""
    pairs, ranks = _PairDistances(grid), _pairs(_rank_matrix(similarity))
    return LayoutScores(
        _partial(ranks, pairs.proximity_2d, pairs.same_raster_distance),
        _partial(ranks, pairs.proximity_raster, pairs.same_row_and_col_distance),
    )


def shuffled_scores(
    similarity: PositionSimilarity, grid: Grid, generator: torch.Generator, permutations: int = 20
) -> ShuffledScores:
    """Return the baseline of `partial_2d` for randomly permuted positions."""
    rank_matrix, pairs = _rank_matrix(similarity), _PairDistances(grid)
    scores = []
    for _ in range(permutations):
        order = torch.randperm(grid.positions, generator=generator).numpy()
        ranks = _pairs(rank_matrix[np.ix_(order, order)])
        scores.append(_partial(ranks, pairs.proximity_2d, pairs.same_raster_distance))
    return ShuffledScores(float(np.mean(scores)), float(np.std(scores)), float(np.max(scores)), permutations)


def similarity_maps(
    similarity: PositionSimilarity, grid: Grid
) -> tuple[list[int], list[int], Float[Tensor, "map_rows map_cols rows cols"]]:
    """Return rows, columns and maps of all positions, of evenly spaced ones if all exceed 65,536 values."""
    limit = int((MAX_MAP_VALUES / grid.positions) ** 0.5)
    rows, cols = (np.linspace(0, side - 1, min(side, limit)).round().astype(int).tolist() for side in grid)
    maps = rearrange(similarity, "(h w) (r c) -> h w r c", h=grid.rows, r=grid.rows)
    return rows, cols, maps[rows][:, cols].float()


class _PairDistances:
    """Ranks of the proximity of all pairs of positions, and the groups of pairs at the same distances."""

    def __init__(self, grid: Grid):
        first, second = np.triu_indices(grid.positions, 1)
        (row, col), (other_row, other_col) = divmod(first, grid.cols), divmod(second, grid.cols)
        rows, cols = other_row - row, abs(other_col - col)
        self.same_raster_distance: PairGroups = second - first
        self.same_row_and_col_distance: PairGroups = rows * grid.cols + cols
        self.proximity_raster: PairValues = rankdata(first - second)
        self.proximity_2d: PairValues = rankdata(-(rows**2 + cols**2))


def _partial(ranks: PairValues, proximity: PairValues, groups: PairGroups) -> float:
    """Return the correlation within groups of pairs; 0 if the groups explain one of the two."""
    left = _within_groups(ranks, groups)
    if left.var() <= MIN_VARIANCE_LEFT * ranks.var():
        return 0.0
    return pearson_coefficient(left, _within_groups(proximity, groups)) or 0.0


def _within_groups(values: PairValues, groups: PairGroups) -> PairValues:
    counts = np.bincount(groups).clip(min=1)
    return values - (np.bincount(groups, values) / counts)[groups]


def _rank_matrix(similarity: PositionSimilarity) -> Float[np.ndarray, "N N"]:
    matrix = np.zeros(similarity.shape)
    upper = np.triu_indices(len(similarity), 1)
    matrix[upper] = rankdata(similarity.numpy()[upper].round(SIMILARITY_DIGITS))
    return matrix + matrix.T


def _pairs(matrix: Float[np.ndarray, "N N"]) -> PairValues:
    return matrix[np.triu_indices(len(matrix), 1)]


@register("position_embeddings")
class PositionEmbeddings(Analysis):
    """Similarity of position embeddings and its layout; baselines are shuffled and untrained positions."""

    figure = staticmethod(plot_position_similarity)

    def label(self) -> str:
        return "Position-embedding similarity"

    def not_applicable_reason(self, network: Network) -> str | None:
        return None if _position_table(network).any() else "this network has no position embeddings"

    def compute(self, given: AnalysisInput) -> Numbers:
        grid, table = given.backbone.grid, _position_table(given.network)
        similarity = position_similarity(table)
        rows, cols, maps = similarity_maps(similarity, grid)
        scores = {}
        if min(grid) > 1:
            scores["trained"] = layout_scores(similarity, grid)._asdict()
            if given.untrained is not None:
                untrained = position_similarity(_position_table(given.untrained()))
                scores["untrained"] = layout_scores(untrained, grid)._asdict()
            draw = generator(given.seed, "shuffle")
            scores["shuffled"] = shuffled_scores(similarity, grid, draw)._asdict()
        return {**given.common_results(), **scores, "rows": rows, "cols": cols, "maps": rounded(maps, 3)}

    def caption(self, numbers: Numbers) -> str:
        return "Cosine similarity of each position embedding (small map, at its position) with all others."

    def table(self, numbers: Numbers) -> Table | None:
        if "trained" not in numbers:
            return None
        known = {key: numbers[key] for key in ("trained", "untrained") if key in numbers}
        rows = [
            (key, *(f"{layout[score]:.2f}" for score in LayoutScores._fields))
            for key, layout in known.items()
        ]
        shuffled = numbers["shuffled"]
        rows.append(("shuffled", f"{shuffled['mean']:.3f} ± {shuffled['std']:.3f}", ""))
        return Table(
            "Position embeddings: partial Spearman correlation of similarity with proximity in the plane,"
            " and in raster order",
            ("positions", "2-D", "raster"),
            rows,
        )


@torch.no_grad()
def _position_table(network: Network) -> PositionTable:
    backbone, codec = network.backbone, network.codec
    codes = torch.zeros(1, codec.grid.positions, codec.num_codes, dtype=torch.long, device=network.device)
    embedded = backbone.patch_tokens(backbone.embed(network.inputs_of_codes(codes)))
    return backbone.positions(torch.zeros_like(embedded))[0]
