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
NOISE = 0.12  # scores of 120 random positions are below this


def sinusoids(index: torch.Tensor, width: int) -> torch.Tensor:
    """Sinusoidal position embeddings."""
    rates = 100.0 ** -(torch.arange(width // 2) / (width // 2))
    angles = index[:, None].double() * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


def table(kind: str, grid: Grid = GRID) -> torch.Tensor:
    place = torch.arange(grid.positions)
    if kind == "rows_and_columns":
        return torch.cat([sinusoids(place // grid.cols, 32), sinusoids(place % grid.cols, 32)], 1)
    if kind == "local":  # similarity decreases with distance, the same in all directions
        down, right = torch.arange(-12, 24).double(), torch.arange(-12, 22).double()
        each = [torch.exp(-((place[:, None] // grid.cols - down) ** 2) / 18)]
        each.append(torch.exp(-((place[:, None] % grid.cols - right) ** 2) / 18))
        return torch.einsum("nr,nc->nrc", *each).flatten(1)
    if kind == "sequence":
        return sinusoids(place, 64)
    if kind == "smooth_sequence":
        near = torch.exp(-((place[:, None] - place) ** 2) / (2 * (1.5 * grid.cols) ** 2)).double()
        return near @ torch.randn(grid.positions, 64, generator=generator(0, "walk"), dtype=torch.float64)
    return torch.randn(grid.positions, 64, generator=generator(0, "test.table"), dtype=torch.float64)


def score(kind: str) -> positions.LayoutScores:
    return positions.layout_scores(positions.position_similarity(table(kind)), GRID)


def test_similarity_is_the_cosine_of_each_pair() -> None:
    given = table("random")
    similarity = positions.position_similarity(given)
    expected = torch.cosine_similarity(given[3], given[8], dim=0)
    assert similarity[3, 8].item() == pytest.approx(expected.item())
    torch.testing.assert_close(similarity.diagonal(), torch.ones(len(given), dtype=torch.float64))


def test_the_2d_score_is_one_where_similarity_decreases_with_distance() -> None:
    found = score("local")
    assert found.partial_2d > 0.99
    assert found.plain_2d > 0.99
    assert found.partial_raster == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("row_weight", [0.5, 1.0, 1.5, 3.0])
def test_a_sum_of_rows_and_columns_has_no_raster_order_whatever_their_weights(row_weight: float) -> None:
    weighted = table("rows_and_columns") * torch.tensor([row_weight] * 32 + [1.0] * 32)
    found = positions.layout_scores(positions.position_similarity(weighted), GRID)
    assert found.partial_raster == pytest.approx(0, abs=1e-3)
    assert found.partial_2d > 0.3


def smooth(count: int, draw: str) -> torch.Tensor:
    """Random vectors that change slowly."""
    index = torch.arange(count).double()
    random = torch.randn(count, 256, generator=generator(0, draw), dtype=torch.float64)
    return torch.exp(-((index[:, None] - index) ** 2) / 8) @ random


def test_a_sum_of_rows_and_columns_in_one_space_has_no_raster_order() -> None:
    """X[row] + Y[column], rows weighted 1.5: products of a row with a column vary, but average to zero."""
    place, found = torch.arange(GRID.positions), []
    for draw in range(10):
        rows, cols = smooth(GRID.rows, f"rows{draw}"), smooth(GRID.cols, f"cols{draw}")
        given = 1.5 * rows[place // GRID.cols] + cols[place % GRID.cols]
        found.append(positions.layout_scores(positions.position_similarity(given), GRID))
    assert np.mean([each.plain_raster for each in found]) > 0.5
    assert abs(np.mean([each.partial_raster for each in found])) < 0.05
    assert np.mean([each.partial_2d for each in found]) > 0.3


@pytest.mark.parametrize("kind", ["sequence", "smooth_sequence"])
def test_embeddings_of_a_sequence_follow_raster_order_only(kind: str) -> None:
    found = score(kind)
    assert found.partial_raster > 0.4
    assert found.partial_2d == pytest.approx(0, abs=0.05)


def test_raster_score_is_one_where_similarity_decreases_with_raster_distance() -> None:
    place = torch.arange(GRID.positions).double()
    found = positions.layout_scores(-(place[:, None] - place).abs() / 200, GRID)
    assert found.partial_raster == pytest.approx(1)
    assert found.partial_2d == 0


def test_random_embeddings_follow_neither() -> None:
    found = score("random")
    assert max(map(abs, found)) < NOISE


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


def test_shuffled_places_are_chance() -> None:
    similarity = positions.position_similarity(table("rows_and_columns"))
    found = positions.shuffled_scores(similarity, GRID, generator(0, "test.chance"), permutations=8)
    assert abs(found.mean) < NOISE
    assert found.max < NOISE
    assert found.permutations == 8
    assert found.std > 0


def smooth_sum(grid: Grid, scales: torch.Tensor, draw: str) -> torch.Tensor:
    """A sum of a smooth random curve of rows and one of columns, with directions of different sizes."""
    place = torch.arange(grid.positions)
    rows, cols = (smooth(side, f"{draw}{axis}")[:, : len(scales)] * scales for axis, side in enumerate(grid))
    return rows[place // grid.cols] + cols[place % grid.cols]


def raster_range(given: torch.Tensor, grid: Grid, draws: int = 39) -> positions.RasterRange:
    return positions.raster_range(given, grid, generator(0, "test.range"), draws)


@pytest.mark.parametrize("grid", [Grid(4, 4), Grid(8, 8)], ids=str)
@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_scores_of_sums_of_smooth_curves_are_rarely_outside_their_range(grid: Grid, decay: float) -> None:
    """At most 5 %, although single scores are large: 7 of 60 or more have a probability below 4 %."""
    given = [smooth_sum(grid, torch.arange(1, 65) ** -decay, f"sum{draw}") for draw in range(60)]
    scores = [
        positions.layout_scores(positions.position_similarity(each), grid).partial_raster for each in given
    ]
    assert max(map(abs, scores)) > 0.3
    assert sum(raster_range(each, grid).outside for each in given) < 7


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


def test_a_line_of_rows_and_columns_has_the_score_of_its_range() -> None:
    """Position r + c / 8 times a vector is a sum with one component: its sign does not change the size."""
    place = torch.arange(64).double()
    given = (place[:, None] / 8 + 20) * torch.tensor([1.0, 2.0]).double() + torch.tensor([0.0, 30.0]).double()
    score = positions.layout_scores(positions.position_similarity(given), Grid(8, 8)).partial_raster
    found = raster_range(given, Grid(8, 8))
    assert not found.outside
    assert found.limit >= abs(score) - 1e-6 > 0.1


@pytest.mark.parametrize("kind", ["rows_and_columns", "random", "local"])
def test_tables_without_raster_order_are_within_their_range(kind: str) -> None:
    assert not raster_range(table(kind), GRID).outside


def test_the_range_of_identical_vectors_is_zero() -> None:
    assert raster_range(torch.ones(120, 3), GRID, 19) == (0, False, 19)


def test_a_seed_gives_one_range() -> None:
    assert raster_range(table("random"), GRID) == raster_range(table("random"), GRID)


def test_too_few_draws_for_a_range_are_rejected() -> None:
    with pytest.raises(ValueError, match="18 draws are too few"):
        raster_range(table("random"), GRID, 18)


def test_scores_do_not_depend_on_the_norm_or_rotation_of_vectors() -> None:
    given = table("rows_and_columns")
    rotated = (
        given @ torch.linalg.qr(torch.randn(64, 64, generator=generator(1, "t"), dtype=torch.float64))[0]
    )
    scaled = rotated * torch.arange(1, len(given) + 1)[:, None]
    again = positions.layout_scores(positions.position_similarity(scaled), GRID)
    assert again == pytest.approx(score("rows_and_columns"), abs=1e-6)


def test_identical_vectors_have_scores_of_zero() -> None:
    assert positions.layout_scores(positions.position_similarity(torch.ones(120, 3)), GRID) == (0, 0, 0, 0)


@pytest.mark.parametrize("grid", [Grid(1, 6), Grid(6, 1)])
def test_a_grid_of_one_dimension_is_rejected(grid: Grid) -> None:
    with pytest.raises(ValueError, match="only one dimension"):
        positions.layout_scores(torch.eye(6), grid)


def test_maps_are_rows_of_the_similarity_matrix() -> None:
    similarity = positions.position_similarity(table("rows_and_columns"))
    found = positions.similarity_maps(similarity, GRID)
    assert (found.rows, found.cols) == (list(range(12)), list(range(10)))
    torch.testing.assert_close(found.values[7, 4].flatten(), similarity[7 * 10 + 4].float())


def test_large_grids_have_maps_of_evenly_spaced_positions() -> None:
    grid = Grid(32, 32)
    found = positions.similarity_maps(torch.eye(grid.positions), grid)
    assert len(found.rows) == len(found.cols) == 8
    assert (found.rows[0], found.rows[-1]) == (0, 31)
    assert found.values[2, 5].argmax() == found.rows[2] * 32 + found.cols[5]
    assert math.prod(found.values.shape) == positions.MAX_MAP_VALUES
