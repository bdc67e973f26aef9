"""Intervals of crossed means cover the truth, by simulation, and agree with SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from isopix.core.paired import CrossedMean, crossed_mean, mean_half_width

SEEDS, DRAWS = 3, 5  # the smallest design of the documentation
NUM_DESIGNS = 1000
OFFSET = 0.5
LOWEST = 0.95 - 3 * math.sqrt(0.95 * 0.05 / NUM_DESIGNS)  # three standard errors of a simulated coverage


def test_the_half_width_is_that_of_scipys_t_interval() -> None:
    values = np.random.default_rng(0).normal(size=7)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    half = mean_half_width(values)
    assert half is not None
    np.testing.assert_allclose(
        [values.mean() - half, values.mean() + half], [expected.low, expected.high], rtol=1e-12
    )
    assert mean_half_width(values[:1]) is None


# Standard deviations of seeds, of draws, and of single runs.
@pytest.mark.parametrize(
    "deviations", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1), (2, 1, 1), (1, 2, 1)]
)
def test_the_interval_covers_the_mean_over_seeds_and_draws(deviations: tuple[float, float, float]) -> None:
    random, hits = np.random.default_rng(1), 0
    for _ in range(NUM_DESIGNS):
        cells = 0.3 + sum(
            deviation * random.normal(size=shape)
            for deviation, shape in zip(deviations, [(SEEDS, 1), (1, DRAWS), (SEEDS, DRAWS)], strict=True)
        )
        found = crossed_mean(cells)
        assert found.half_width is not None
        hits += abs(found.mean - 0.3) <= found.half_width
    assert hits / NUM_DESIGNS >= LOWEST


def test_an_interval_for_one_run_only_would_miss_the_mean() -> None:
    """The oracle of the test above sees an interval that leaves out the seeds."""
    random, hits = np.random.default_rng(1), 0
    for _ in range(NUM_DESIGNS):
        found = crossed_mean(random.normal(size=(SEEDS, 1)) + random.normal(size=(1, DRAWS)))
        assert found.draws is not None
        hits += abs(found.mean) <= found.draws
    assert hits / NUM_DESIGNS < 0.9


# Spread of images, seeds and draws, on the scale of the logit of the probability that an image is right.
@pytest.mark.parametrize("spread", [(3.0, 0.0, 0.0), (3.0, 0.3, 0.3), (0.0, 0.3, 0.0), (1.0, 0.0, 0.5)])
def test_the_interval_for_new_images_covers_the_mean_over_images_too(spread: tuple[float, ...]) -> None:
    found = [_simulated(np.random.default_rng(number), *spread) for number in range(300)]
    truth = _expected(OFFSET, math.hypot(*spread))
    hits = [abs(each.mean - truth) <= (each.half_width_new_images or 0) for each in found]
    assert np.mean(hits) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300)


def test_an_interval_for_these_images_would_miss_the_mean_over_images() -> None:
    found = [_simulated(np.random.default_rng(number), 3.0, 0.0, 0.0) for number in range(300)]
    truth = _expected(OFFSET, 3.0)
    assert np.mean([abs(each.mean - truth) <= (each.half_width or 0) for each in found]) < 0.9


def _simulated(random: np.random.Generator, of_image: float, of_seed: float, of_draw: float) -> CrossedMean:
    """A design with 60 new images: each right or wrong at random, as its image, seed and draw make likely."""
    logits = (
        OFFSET
        + of_image * random.normal(size=60)
        + of_seed * random.normal(size=(SEEDS, 1, 1))
        + of_draw * random.normal(size=(DRAWS, 1))
    )
    right = (random.random((SEEDS, DRAWS, 60)) < 1 / (1 + np.exp(-logits))).astype(float)
    return crossed_mean(right.mean(2), right)


# Images of each group: as the placements of a digit, and of different sizes.
@pytest.mark.parametrize("sizes", [[3] * 70, [1, 2, 3, 6] * 18], ids=["equal", "different"])
def test_the_interval_for_new_images_takes_whole_groups(sizes: list[int]) -> None:
    """The images of a group are alike; those of large groups are easier, and count in proportion."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    easier = 0.1 * (np.array(sizes) - np.mean(sizes))
    truth = float(np.average(0.3 + easier, weights=sizes))

    def covers(random: np.random.Generator, *, grouped: bool) -> bool:
        of_group = 0.3 + easier + random.normal(size=len(sizes))
        images = (of_group[groups] + 0.3 * random.normal(size=len(groups)))[None, None]
        found = crossed_mean(images.mean(2), images, groups if grouped else None)
        return abs(found.mean - truth) <= (found.half_width_new_images or 0)

    shares = {
        grouped: np.mean([covers(np.random.default_rng(n), grouped=grouped) for n in range(NUM_DESIGNS)])
        for grouped in (True, False)
    }
    assert abs(shares[True] - 0.95) <= 3 * math.sqrt(0.95 * 0.05 / NUM_DESIGNS) + 0.005
    assert shares[False] < 0.85, "the simulation sees an interval that takes images for independent"


def test_the_interval_of_equal_groups_is_that_of_their_means_by_scipy() -> None:
    random = np.random.default_rng(3)
    values, order = random.normal(size=24), random.permutation(24)
    groups = np.repeat([5, 9, -2, 0, 7, 8], 4)
    expected = stats.ttest_1samp(values.reshape(6, 4).mean(1), 0).confidence_interval(0.95)
    half = mean_half_width(values[order], groups[order])
    assert half == pytest.approx((expected.high - expected.low) / 2, rel=1e-12)
    assert mean_half_width(values, np.arange(24)) == pytest.approx(mean_half_width(values), rel=1e-12)
    assert mean_half_width(values, np.zeros(24, dtype=int)) is None


def _expected(mean: float, deviation: float) -> float:
    """The mean of the logistic function of a normal variable, by quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(99)
    return float((weights / (1 + np.exp(-(mean + deviation * points)))).sum() / weights.sum())


def test_half_widths_add_in_quadrature_and_say_what_they_leave_out() -> None:
    cells = np.array([[0.1, 0.2, 0.4], [0.0, 0.3, 0.3]])
    by_seed, by_draw = stats.t.ppf(0.975, [1, 2]) * [
        np.std([0.7 / 3, 0.2], ddof=1) / math.sqrt(2),
        np.std([0.05, 0.25, 0.35], ddof=1) / math.sqrt(3),
    ]
    found = crossed_mean(cells)
    np.testing.assert_allclose([found.seeds, found.draws], [by_seed, by_draw], rtol=1e-12)
    assert found.half_width == pytest.approx(math.hypot(by_seed, by_draw))
    assert found.half_width_new_images is None
    assert crossed_mean(cells[:1]).seeds is None
    assert crossed_mean(cells[:1]).half_width == crossed_mean(cells[:1]).draws
    assert crossed_mean(cells[:1, :1]).half_width is None


def test_cells_are_the_means_over_images() -> None:
    images = np.random.default_rng(0).integers(-1, 2, (2, 3, 10)).astype(float)
    assert crossed_mean(images.mean(2), images).images is not None
    with pytest.raises(ValueError, match="not the means"):
        crossed_mean(images.mean(2) + 0.1, images)
    with pytest.raises(ValueError, match="one cell"):
        crossed_mean(np.empty((0, 3)))
