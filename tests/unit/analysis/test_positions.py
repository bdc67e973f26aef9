"""Layout scores distinguish embeddings of rows and columns, of a sequence, and random ones."""

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
    assert abs(found.partial_raster) < 0.2


def test_embeddings_of_rows_and_columns_follow_the_2d_layout() -> None:
    found = score("rows_and_columns")
    assert found.partial_2d > 0.6
    assert abs(found.partial_raster) < 0.2
    assert found.plain_2d > found.plain_raster


def test_embeddings_of_a_sequence_follow_raster_order() -> None:
    found = score("sequence")
    assert found.partial_raster > 0.8
    assert found.partial_2d < NOISE


def test_random_embeddings_follow_neither() -> None:
    found = score("random")
    assert max(map(abs, found)) < NOISE


def test_scores_are_partial_rank_correlations() -> None:
    """Against SciPy's ranks and a regression by least squares, pair by pair."""
    similarity = positions.position_similarity(table("rows_and_columns")).numpy()
    one, other = np.triu_indices(GRID.positions, 1)
    down, right = one // GRID.cols - other // GRID.cols, one % GRID.cols - other % GRID.cols
    given = [similarity[one, other].round(12), -np.hypot(down, right), -np.abs(one - other)]
    similar, near, order = (
        stats.zscore(stats.rankdata(np.float32(each) if each is given[1] else each)) for each in given
    )
    left = [each - order * (order @ each) / (order @ order) for each in (similar, near)]
    assert score("rows_and_columns").partial_2d == pytest.approx(np.corrcoef(left)[0, 1], abs=1e-6)
    assert score("rows_and_columns").plain_raster == pytest.approx(
        stats.spearmanr(similar, order)[0], abs=1e-9
    )


def test_shuffled_places_are_chance() -> None:
    similarity = positions.position_similarity(table("rows_and_columns"))
    found = positions.shuffled_scores(similarity, GRID, generator(0, "test.chance"), permutations=8)
    assert abs(found.mean) < NOISE
    assert found.max < NOISE
    assert found.permutations == 8
    assert found.std > 0


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
