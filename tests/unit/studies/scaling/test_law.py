"""Laws of profiles whose optima are known in closed form, and the coverage of their intervals."""

import numpy as np
import pytest

from isopix.studies.scaling.law import Profile, fit_law
from isopix.studies.scaling.results import ScalingLaw

A, B, ALPHA, BETA = 8.0, 30.0, 0.3, 0.4  # of the loss A / N^ALPHA + B / D^BETA, with 6 N D FLOPs
BUDGETS = (1e12, 4e12, 1.6e13, 6.4e13)


def best_size(budget: float) -> float:
    """The minimum over N at equal FLOPs, from the derivative (Hoffmann et al. 2022, equation 4)."""
    ratio = ALPHA * A / (BETA * B)
    return float((ratio * (budget / 6) ** BETA) ** (1 / (ALPHA + BETA)))


def best_loss(budget: float) -> float:
    size = best_size(budget)
    return float(A / size**ALPHA + B / (budget / 6 / size) ** BETA)


def profile(budget: float, noise: float = 0.0, seed: int = 0, spread: float = 2.0) -> Profile:
    sizes = np.repeat(best_size(budget) * np.geomspace(1 / spread, 1.2 * spread, 6), 3)
    tokens = budget / 6 / sizes
    values = A / sizes**ALPHA + B / tokens**BETA
    errors = np.random.default_rng((seed, int(budget))).normal(0, 1, len(sizes))
    return Profile(budget, sizes, tokens, values + noise * errors)


def law(noise: float = 0.0, seed: int = 0) -> ScalingLaw:
    return fit_law("tiny", "loss", [profile(each, noise, seed) for each in BUDGETS])


def test_optima_and_exponents_are_those_of_the_closed_form() -> None:
    found = law()
    for optimum in found.optima:
        assert optimum.inside
        assert optimum.parameters.value == pytest.approx(best_size(optimum.budget), rel=0.02)
        assert optimum.tokens.value == pytest.approx(optimum.budget / 6 / optimum.parameters.value, rel=0.01)
        assert optimum.value.value == pytest.approx(best_loss(optimum.budget), rel=1e-3)
    expected = {"parameters": BETA, "tokens": ALPHA, "value": -ALPHA * BETA}
    for name, power in expected.items():
        assert found.laws[name].exponent.value == pytest.approx(power / (ALPHA + BETA), abs=0.003)
    assert found.laws["value"].at(1e15) == pytest.approx(best_loss(1e15), rel=1e-3)


def test_the_largest_budget_is_predicted_without_its_networks() -> None:
    smaller = [profile(each) for each in BUDGETS[:-1]]
    last = profile(BUDGETS[-1])
    found = [fit_law("tiny", "loss", [*smaller, last._replace(values=last.values + add)]) for add in (0, 5)]
    predictions = [each.laws["value"].predicted.value for each in found]
    assert predictions[0] == predictions[1] == pytest.approx(best_loss(BUDGETS[-1]), rel=1e-3)
    assert found[1].largest.value.value == pytest.approx(best_loss(BUDGETS[-1]) + 5, rel=1e-3)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Of 100 draws of the noise; an interval of 95% may miss in 11 (a binomial's 99.5% quantile)."""
    power = BETA / (ALPHA + BETA)
    missed = np.zeros(3)
    for seed in range(100):
        found = law(noise=0.002, seed=seed)
        first = found.optima[0]
        found_and_true = (
            (first.parameters, best_size(first.budget)),
            (first.value, best_loss(first.budget)),
            (found.laws["parameters"].exponent, power),
        )
        missed += [not each.interval[0] <= true <= each.interval[1] for each, true in found_and_true]
    assert missed.max() <= 11
    assert missed.sum() > 0


def test_a_best_size_at_the_edge_is_marked_and_not_part_of_a_law() -> None:
    profiles = [profile(each) for each in BUDGETS]
    sizes = np.repeat(best_size(BUDGETS[0]) * np.geomspace(0.2, 0.7, 4), 2)
    tokens = BUDGETS[0] / 6 / sizes
    cut = Profile(BUDGETS[0], sizes, tokens, A / sizes**ALPHA + B / tokens**BETA)
    found = fit_law("tiny", "loss", [cut, *profiles[1:]])
    assert [each.inside for each in found.optima] == [False, True, True, True]
    assert found.optima[0].parameters.value == pytest.approx(sizes.max())
    without = fit_law("tiny", "loss", profiles[1:])
    assert found.laws["parameters"].exponent.value == without.laws["parameters"].exponent.value
    assert fit_law("tiny", "loss", [cut, *profiles[2:]]).laws == {}


def test_five_sizes_around_the_best_are_fitted_and_an_end_is_no_best_size() -> None:
    sizes = 1e4 * 2.0 ** np.arange(7)
    bowl = (np.log2(sizes / 1e4) - np.array([3.2])) ** 2 / 50
    bowl[0] += 1  # farther away than two sizes
    inner = fit_law("tiny", "loss", [Profile(1e12, sizes, 1e12 / sizes, 3 + bowl)]).optima[0]
    assert inner.parameters.value == pytest.approx(1e4 * 2**3.2)
    assert inner.inside
    bowl[-1] = -0.01
    assert not fit_law("tiny", "loss", [Profile(1e12, sizes, 1e12 / sizes, 3 + bowl)]).optima[0].inside


def test_a_profile_without_a_minimum_has_its_better_end() -> None:
    sizes = np.array([1e4, 2e4, 4e4, 8e4])
    bent = Profile(1e12, sizes, 1e12 / sizes, -((np.log(sizes) - np.log(3e4)) ** 2))
    [best, _, _] = bent.optima(bent.values[:, None] + 9)[:, 0]
    assert np.exp(best) == pytest.approx(1e4)
