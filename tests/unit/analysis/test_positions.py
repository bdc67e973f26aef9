"""Layout scores distinguish embeddings of rows and columns, of a sequence, and random ones."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from isopix.analysis import positions
from isopix.core.random import generator
from isopix.core.types import Grid

GRID = Grid(12, 10)


def sinusoids(index: torch.Tensor, width: int) -> torch.Tensor:
    """Sinusoidal position embeddings."""
    rates = 100.0 ** -(torch.arange(width // 2) / (width // 2))
    angles = index[:, None].double() * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


def table(kind: str, grid: Grid = GRID) -> torch.Tensor:
    place = torch.arange(grid.positions)
    if kind == "rows_and_columns":
        return torch.cat([sinusoids(place // grid.cols, 32), sinusoids(place % grid.cols, 32)], 1)
    if kind == "smooth_sequence":
        near = torch.exp(-((place[:, None] - place) ** 2) / (2 * (1.5 * grid.cols) ** 2)).double()
        return near @ torch.randn(grid.positions, 64, generator=generator(0, "walk"), dtype=torch.float64)
    return torch.randn(grid.positions, 64, generator=generator(0, "test.table"), dtype=torch.float64)


def smooth(count: int, draw: str) -> torch.Tensor:
    """Random vectors that change slowly."""
    index = torch.arange(count).double()
    random = torch.randn(count, 256, generator=generator(0, draw), dtype=torch.float64)
    return torch.exp(-((index[:, None] - index) ** 2) / 8) @ random


@pytest.mark.parametrize("kind", ["rows_and_columns", "smooth_sequence", "random"])
def test_scores_are_partial_rank_correlations(kind: str) -> None:
    """Against SciPy's ranks and a regression on an indicator of each distance by least squares."""
    grid = Grid(5, 4)
    similarity = positions.position_similarity(table(kind, grid))
    one, other = np.triu_indices(grid.positions, 1)
    down, right = abs(one // grid.cols - other // grid.cols), abs(one % grid.cols - other % grid.cols)
    ranks = stats.rankdata(similarity.numpy()[one, other].round(12))
    near, order = stats.rankdata(-(down**2 + right**2)), stats.rankdata(-abs(one - other))

    def given(controls: np.ndarray, proximity: np.ndarray) -> float:
        indicators = np.float64(controls[:, None] == np.unique(controls))
        left = [
            each - indicators @ np.linalg.lstsq(indicators, each, rcond=None)[0]
            for each in (ranks, proximity)
        ]
        return float(np.corrcoef(left)[0, 1])

    found = positions.layout_scores(similarity, grid)
    assert found.partial_2d == pytest.approx(given(abs(one - other), near), abs=1e-9)
    if kind != "rows_and_columns":  # there it is 0 / 0
        assert found.partial_raster == pytest.approx(given(100 * down + right, order), abs=1e-9)
    assert found.plain_raster == pytest.approx(stats.spearmanr(ranks, order)[0], abs=1e-9)


def smooth_sum(grid: Grid, scales: torch.Tensor, draw: str) -> torch.Tensor:
    """A sum of a smooth random curve of rows and one of columns, with directions of different sizes."""
    place = torch.arange(grid.positions)
    rows, cols = (smooth(side, f"{draw}{axis}")[:, : len(scales)] * scales for axis, side in enumerate(grid))
    return rows[place // grid.cols] + cols[place % grid.cols]


def raster_range(given: torch.Tensor, grid: Grid, draws: int = 39) -> positions.RasterRange:
    return positions.raster_range(given, grid, generator(0, "test.range"), draws)


@pytest.mark.parametrize("grid", [Grid(4, 4), Grid(8, 8)], ids=str)
def test_scores_of_smooth_sequences_are_outside_the_range(grid: Grid) -> None:
    place = torch.arange(grid.positions)
    near = torch.exp(-((place[:, None] - place) ** 2) / (2 * grid.cols**2)).double()
    found = 0
    for draw in range(10):
        random = torch.randn(grid.positions, 64, generator=generator(draw, "walk"), dtype=torch.float64)
        found += raster_range(near @ random, grid).outside
    assert found >= 9


def test_draws_multiply_column_means_by_the_signs_of_each_component() -> None:
    """Against all eight signs of a table in three dimensions, each in about 12 of 99 draws."""
    grid = Grid(4, 5)
    given = smooth_sum(grid, torch.tensor([1.0, 0.8, 0.6]), "eight") + 0.1 * table("random", grid)[:, :3]
    centered = given.numpy() - given.numpy().mean(0)
    axes = np.linalg.eigh(centered.T @ centered)[1]
    rows = np.repeat(centered.reshape(4, 5, 3).mean(1), 5, 0)
    cols = np.tile(centered.reshape(4, 5, 3).mean(0), (4, 1))
    scores = []
    for signs in itertools.product([-1, 1], repeat=3):
        drawn = torch.from_numpy(given.numpy().mean(0) + rows + cols @ axes @ np.diag(signs) @ axes.T)
        scores.append(abs(positions.layout_scores(positions.position_similarity(drawn), grid).partial_raster))
    assert max(scores) > scores[-1] + 0.01
    assert raster_range(given, grid, 99).limit == pytest.approx(max(scores))


def test_maps_are_rows_of_the_similarity_matrix() -> None:
    similarity = positions.position_similarity(table("rows_and_columns"))
    rows, cols, maps = positions.similarity_maps(similarity, GRID)
    assert (rows, cols) == (list(range(12)), list(range(10)))
    torch.testing.assert_close(maps[7, 4].flatten(), similarity[7 * 10 + 4].float())


def test_large_grids_have_maps_of_evenly_spaced_positions() -> None:
    grid = Grid(32, 32)
    rows, cols, maps = positions.similarity_maps(torch.eye(grid.positions), grid)
    assert len(rows) == len(cols) == 8
    assert (rows[0], rows[-1]) == (0, 31)
    assert maps[2, 5].argmax() == rows[2] * 32 + cols[5]
    assert math.prod(maps.shape) == positions.MAX_MAP_VALUES
