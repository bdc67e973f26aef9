"""Scaling laws from IsoFLOP profiles (Hoffmann et al. 2022, section 3.2; for pixels, arXiv 2511.08704).

The networks of a budget differ in size. The vertex of a parabola in the logarithm of the size is the best
one; best sizes, tokens and losses are power laws of the budget. Intervals are of the bootstrap: the residuals
of each parabola are drawn again, so that they cover differences between seeds and its own error.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri, stdtrit

from isopix.plots.scaling import IsoFLOP
from isopix.studies.scaling.results import QUANTITIES, Estimated, Measure, Optimum, PowerLaw, ScalingLaw

DRAWS = 2000
NEAR = 5  # sizes of a parabola
FEWEST_SIZES, FEWEST_BUDGETS = 4, 3  # for a parabola with an error, and for a law that predicts a budget
Values = Float[np.ndarray, " n"]
Draws = Float[np.ndarray, "n draws"]  # the first column is measured, the others are drawn


class Profile(NamedTuple):
    """The networks of a budget: their parameters and tokens, and a value that is best if it is small."""

    budget: float
    parameters: Values
    tokens: Values
    values: Values

    @property
    def sizes(self) -> list[float]:
        """The numbers of parameters, the smallest first."""
        return np.unique(self.parameters).tolist()

    @property
    def best(self) -> int:
        """The index of the size with the lowest mean."""
        return int(np.argmin([self.values[self.parameters == each].mean() for each in self.sizes]))

    def near_best(self) -> "Profile":
        """Return the five sizes around the best one: those farther away lie on no parabola."""
        first = max(0, min(self.best - NEAR // 2, len(self.sizes) - NEAR))
        near = np.isin(self.parameters, self.sizes[first : first + NEAR])
        return Profile(self.budget, self.parameters[near], self.tokens[near], self.values[near])

    def is_inside(self, best: float) -> bool:
        """Whether a best size lies between these sizes, and the lowest mean is that of neither end."""
        return 0 < self.best < len(self.sizes) - 1 and self.sizes[0] < best < self.sizes[-1]

    def drawn(self, generator: np.random.Generator) -> Draws:
        """Return the values, and draws of them around the parabola."""
        fitted = np.polyval(np.polyfit(np.log(self.parameters), self.values, 2), np.log(self.parameters))
        count = len(self.values)
        few = stdtrit(count - 3, 0.975) / ndtri(0.975)  # as Student's t, for intervals of few networks
        residuals = few * np.sqrt(count / (count - 3)) * (self.values - fitted)
        drawn = fitted[:, None] + generator.choice(residuals, (count, DRAWS))
        return np.column_stack([self.values, drawn])

    def optima(self, values: Draws) -> Float[np.ndarray, "3 draws"]:
        """Return the logarithms of the best parameters, and of the tokens and the value there, for each draw.

        A vertex outside of the sizes, and a maximum, give the better end.
        """
        log = np.log(self.parameters)
        low, high, middle = log.min(), log.max(), log.mean()
        square, slope, constant = np.polyfit(log - middle, values, 2)

        def at(x: Any) -> Any:
            return square * (x - middle) ** 2 + slope * (x - middle) + constant

        end = np.where(at(low) < at(high), low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.where(square > 0, np.clip(middle - slope / (2 * square), low, high), end)
        sizes, first = np.unique(log, return_index=True)
        value = np.clip(at(best), 1e-9, None)  # a draw may be negative if networks are few
        return np.stack([best, np.interp(best, sizes, np.log(self.tokens)[first]), np.log(value)])

    def curve(self) -> IsoFLOP:
        """Return what a figure shows: all networks, and the parabola of those near the best."""
        near = self.near_best()
        best, _, value = np.exp(near.optima(near.values[:, None]))[:, 0]
        parabola = np.polyfit(np.log(near.parameters), near.values, 2)
        ends, ring = (near.sizes[0], near.sizes[-1]), (best, value) if near.is_inside(best) else None
        return IsoFLOP(self.budget, self.parameters, self.values, parabola, ends, ring)


def fit_law(recipe: str, measure: Measure, profiles: Sequence[Profile]) -> ScalingLaw:
    """Return the optima of profiles, the smallest budget first, and the laws of those inside the sizes; no
    laws of fewer than three.
    """
    generator = np.random.default_rng(0)
    optima, inner = list[Optimum](), dict[float, Draws]()
    for each in (profile.near_best() for profile in profiles if len(profile.sizes) >= FEWEST_SIZES):
        found = each.optima(each.drawn(generator))
        inside = each.is_inside(np.exp(found[0, 0]))
        parameters, tokens, value = map(_estimated, np.exp(found))
        optima.append(Optimum(each.budget, parameters, tokens, value, inside))
        if inside:
            inner[each.budget] = found
    if len(inner) < FEWEST_BUDGETS:
        return ScalingLaw(recipe, measure, tuple(optima))
    flops, quantities = np.log([*inner]), np.stack([*inner.values()], axis=1)  # [3 budgets draws]
    laws = {name: _power_law(flops, each) for name, each in zip(QUANTITIES, quantities, strict=True)}
    return ScalingLaw(recipe, measure, tuple(optima), laws)


def _power_law(flops: Values, values: Draws) -> PowerLaw:
    exponents, factors = np.polyfit(flops, values, 1)
    smaller, constants = np.polyfit(flops[:-1], values[:-1], 1)
    predicted = _estimated(np.exp(smaller * flops[-1] + constants))
    first = float(np.exp(constants[0])), float(smaller[0])
    return PowerLaw(float(np.exp(factors[0])), _estimated(exponents), first, predicted)


def _estimated(draws: Values) -> Estimated:
    """Return the first value, which is measured, and the 95% interval of the others."""
    low, high = np.quantile(draws[1:], [0.025, 0.975])
    return Estimated(float(draws[0]), (float(low), float(high)))
