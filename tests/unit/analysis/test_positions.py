"""The score of two dimensions tells tables of rows and columns from tables of a sequence, and both from
chance.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from isopix.analysis import positions
from isopix.core.random import generator
from isopix.core.types import Grid

GRID = Grid(12, 10)
NONE = 0.12  # below this a score of 120 positions is no finding


def waves(places: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines of places, as a Transformer's fixed positions are."""
    rates = 100.0 ** -(torch.arange(width // 2) / (width // 2))
    turns = places[:, None].double() * rates
    return torch.cat([turns.sin(), turns.cos()], 1)


def table(kind: str, grid: Grid = GRID) -> torch.Tensor:
    place = torch.arange(grid.positions)
    if kind == "plane":
        return torch.cat([waves(place // grid.cols, 32), waves(place % grid.cols, 32)], 1)
    if kind == "bumps":  # what is alike falls with distance, in every direction alike
        down, right = torch.arange(-12, 24).double(), torch.arange(-12, 22).double()
        each = [torch.exp(-((place[:, None] // grid.cols - down) ** 2) / 18)]
        each.append(torch.exp(-((place[:, None] % grid.cols - right) ** 2) / 18))
        return torch.einsum("nr,nc->nrc", *each).flatten(1)
    if kind == "sequence":
        return waves(place, 64)
    return torch.randn(grid.positions, 64, generator=generator(0, "test.table"), dtype=torch.float64)


def score(kind: str) -> positions.Plane:
    return positions.plane(positions.similarity(table(kind)), GRID)


def test_similarity_is_the_cosine_of_each_two() -> None:
    given = table("random")
    alike = positions.similarity(given)
    expected = torch.cosine_similarity(given[3], given[8], dim=0)
    assert alike[3, 8].item() == pytest.approx(expected.item())
    torch.testing.assert_close(alike.diagonal(), torch.ones(len(given), dtype=torch.float64))


def test_where_similarity_falls_with_distance_alone_the_score_is_one() -> None:
    found = score("bumps")
    assert found.planar > 0.99
    assert found.near_plane > 0.99
    assert abs(found.raster) < 0.2


def test_a_table_of_rows_and_columns_is_planar_beyond_its_order() -> None:
    found = score("plane")
    assert found.planar > 0.6
    assert abs(found.raster) < 0.2
    assert found.near_plane > found.near_raster


def test_a_table_of_a_sequence_is_not() -> None:
    found = score("sequence")
    assert found.raster > 0.8
    assert found.planar < NONE


def test_a_random_table_is_neither() -> None:
    found = score("random")
    assert max(map(abs, found)) < NONE


def test_scores_are_partial_rank_correlations() -> None:
    """Against SciPy's ranks and a regression by least squares, pair by pair."""
    alike = positions.similarity(table("plane")).numpy()
    one, other = np.triu_indices(GRID.positions, 1)
    down, right = one // GRID.cols - other // GRID.cols, one % GRID.cols - other % GRID.cols
    given = [alike[one, other].round(12), -np.hypot(down, right), -np.abs(one - other)]
    similar, near, order = (
        stats.zscore(stats.rankdata(np.float32(each) if each is given[1] else each)) for each in given
    )
    left = [each - order * (order @ each) / (order @ order) for each in (similar, near)]
    assert score("plane").planar == pytest.approx(np.corrcoef(left)[0, 1], abs=1e-6)
    assert score("plane").near_raster == pytest.approx(stats.spearmanr(similar, order)[0], abs=1e-9)


def test_shuffled_places_are_chance() -> None:
    alike = positions.similarity(table("plane"))
    found = positions.chance(alike, GRID, generator(0, "test.chance"), shuffles=8)
    assert abs(found.mean) < NONE
    assert found.largest < NONE
    assert found.shuffles == 8
    assert found.deviation > 0


def test_a_score_does_not_change_with_the_length_or_the_turn_of_vectors() -> None:
    given = table("plane")
    turned = given @ torch.linalg.qr(torch.randn(64, 64, generator=generator(1, "t"), dtype=torch.float64))[0]
    longer = turned * torch.arange(1, len(given) + 1)[:, None]
    again = positions.plane(positions.similarity(longer), GRID)
    assert again == pytest.approx(score("plane"), abs=1e-6)


def test_equal_vectors_say_nothing() -> None:
    assert positions.plane(positions.similarity(torch.ones(120, 3)), GRID) == (0, 0, 0, 0)


@pytest.mark.parametrize("grid", [Grid(1, 6), Grid(6, 1)])
def test_a_line_has_no_two_dimensions(grid: Grid) -> None:
    with pytest.raises(ValueError, match="no two dimensions"):
        positions.plane(torch.eye(6), grid)


def test_maps_are_rows_of_the_similarity() -> None:
    alike = positions.similarity(table("plane"))
    found = positions.maps(alike, GRID)
    assert (found.rows, found.cols) == (list(range(12)), list(range(10)))
    torch.testing.assert_close(found.values[7, 4].flatten(), alike[7 * 10 + 4].float())


def test_of_many_positions_some_have_a_map() -> None:
    grid = Grid(32, 32)
    found = positions.maps(torch.eye(grid.positions), grid)
    assert len(found.rows) == len(found.cols) == 8
    assert (found.rows[0], found.rows[-1]) == (0, 31)
    assert found.values[2, 5].argmax() == found.rows[2] * 32 + found.cols[5]
    assert math.prod(found.values.shape) == positions.MAP_NUMBERS
