"""Batched L-BFGS: many convex functions at once; each stops by its own criterion and leaves the batch."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Points = Float[Tensor, "P n"]
Values = Float[Tensor, " P"]
Members = Int[Tensor, " P"]  # the index of each row among all problems
Mask = Bool[Tensor, " P"]

Function = Callable[[Points, Members], tuple[Values, Points]]  # to values and gradients
Stop = Callable[[Values, Points, Members], Mask]  # of values and gradients

HISTORY_SIZE = 10  # steps that the curvature is estimated from
MAX_HALVINGS = 30  # of a step, before a problem is given up
ARMIJO = 1e-4  # fraction of the predicted decrease that a step must reach (Nocedal and Wright, equation 3.4)


class SearchState(NamedTuple):
    """Points of the problems, and values and gradients there."""

    points: Points
    values: Values
    gradients: Points

    def take(self, rows: Tensor) -> "SearchState":
        return SearchState(*(each[rows] for each in self))

    def assign(self, rows: Tensor, other: "SearchState") -> None:
        for mine, theirs in zip(self, other, strict=True):
            mine[rows] = theirs

    def clone(self) -> "SearchState":
        return SearchState(*(each.clone() for each in self))


class Step(NamedTuple):
    """A step, the change of the gradient along it, and the reciprocal of their product."""

    step: Points
    change: Points
    inverse: Values

    def take(self, rows: Tensor) -> "Step":
        return Step(*(each[rows] for each in self))


class Minimum(NamedTuple):
    """The final state of each problem, its number of iterations, and whether it met its criterion."""

    state: SearchState
    iterations: Members
    converged: Mask


def minimize(
    function: Function, start: Points, *, curvature: Points, stop: Stop, max_iterations: int
) -> Minimum:
    """Minimize all problems; `curvature` is a positive approximation of the Hessian's diagonal."""
    members = torch.arange(len(start), device=start.device)
    state = SearchState(start, *function(start, members))
    final, iterations = state.clone(), torch.zeros_like(members)
    converged = torch.zeros_like(members, dtype=torch.bool)
    moved = torch.ones_like(converged)
    history: list[Step] = []
    for count in range(max_iterations + 1):
        done = stop(state.values, state.gradients, members)
        final.assign(members, state)
        iterations[members], converged[members] = count, done
        rows = torch.nonzero(moved & ~done).flatten()
        if count == max_iterations or not len(rows):
            break
        members, before = members[rows], state.take(rows)
        history = [step.take(rows) for step in history]
        directions = _directions(before.gradients, history, curvature[members])
        state, moved = _search(function, before, directions, members)
        history = [*history, _step(before, state)][-HISTORY_SIZE:]
    return Minimum(final, iterations, converged)


def _step(before: SearchState, after: SearchState) -> Step:
    step, change = after.points - before.points, after.gradients - before.gradients
    product = _dot(step, change)
    return Step(step, change, torch.where(product > 0, 1 / product, 0.0))


def _directions(gradients: Points, history: Sequence[Step], curvature: Points) -> Points:
    """Return minus the estimated inverse Hessian times the gradients (Nocedal and Wright, algorithm 7.4)."""
    vector, weights = gradients.clone(), []
    for past in reversed(history):
        weights.append(past.inverse * _dot(past.step, vector))
        vector -= weights[-1][:, None] * past.change
    vector /= curvature
    if history:
        newest = history[-1]
        size = newest.inverse * _dot(newest.change, newest.change / curvature)
        vector /= torch.where(size > 0, size, 1.0)[:, None]
    for past, weight in zip(history, reversed(weights), strict=True):
        vector += (weight - past.inverse * _dot(past.change, vector))[:, None] * past.step
    return -vector


def _search(
    function: Function, state: SearchState, directions: Points, members: Members
) -> tuple[SearchState, Mask]:
    """Return points that satisfy the Armijo condition, by backtracking, and where one was found.

    The curvature condition needs no check, as convex functions have positive curvature along every step.
    """
    found, slopes = state.clone(), _dot(state.gradients, directions)
    pending, size = torch.arange(len(slopes), device=slopes.device), 1.0
    for _ in range(MAX_HALVINGS):
        points = state.points[pending] + size * directions[pending]
        trial = SearchState(points, *function(points, members[pending]))
        good = trial.values <= state.values[pending] + ARMIJO * size * slopes[pending]
        found.assign(pending[good], trial.take(good))
        pending, size = pending[~good], size / 2
        if not len(pending):
            break
    moved = torch.ones_like(members, dtype=torch.bool)
    moved[pending] = False
    return found, moved


def _dot(a: Points, b: Points) -> Values:
    return (a * b).sum(-1)
