"""L-BFGS over many convex functions at once: each stops by its own criterion and then leaves the batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Points = Float[Tensor, "P n"]
Values = Float[Tensor, " P"]
Members = Int[Tensor, " P"]  # which of all the problems the rows are
Mask = Bool[Tensor, " P"]

Function = Callable[[Points, Members], tuple[Values, Points]]  # to values and gradients
Stop = Callable[[Values, Points, Members], Mask]  # of values and gradients

MEMORY = 10  # steps from which the curvature is modelled
TRIALS = 30  # halvings of a step before a problem counts as stuck
DECREASE = 1e-4  # the share of the promised descent that a step must bring (Nocedal and Wright, equation 3.4)


@dataclass(frozen=True)
class State:
    """Where problems stand: points, and the values and gradients there."""

    points: Points
    values: Values
    gradients: Points

    def take(self, rows: Tensor) -> "State":
        """These rows alone."""
        return State(self.points[rows], self.values[rows], self.gradients[rows])

    def put(self, rows: Tensor, other: "State") -> None:
        """Write the other's rows over these."""
        self.points[rows], self.values[rows], self.gradients[rows] = (
            other.points,
            other.values,
            other.gradients,
        )

    def copy(self) -> "State":
        """The same in memory of its own."""
        return State(self.points.clone(), self.values.clone(), self.gradients.clone())


@dataclass(frozen=True)
class Step:
    """A step, the change of the gradient along it, and one over their product."""

    step: Points
    change: Points
    inverse: Values

    def take(self, rows: Tensor) -> "Step":
        """These rows alone."""
        return Step(self.step[rows], self.change[rows], self.inverse[rows])


@dataclass(frozen=True)
class Minimum:
    """Where each problem ended, after how many steps, and whether it met its criterion."""

    state: State
    steps: Members
    met: Mask


def minimise(function: Function, start: Points, *, curvature: Points, stop: Stop, limit: int) -> Minimum:
    """The minima of all problems, from `start`, in at most `limit` steps each.

    `curvature` is a positive diagonal near the Hessian's: it scales the directions. A problem whose line
    search finds no better point leaves with `met` False.
    """
    members = torch.arange(len(start), device=start.device)
    state = State(start, *function(start, members))
    final, steps = state.copy(), torch.zeros_like(members)
    met, moved = torch.zeros_like(members, dtype=torch.bool), torch.ones_like(members, dtype=torch.bool)
    history: list[Step] = []
    for count in range(limit + 1):
        done = stop(state.values, state.gradients, members)
        final.put(members, state)
        steps[members], met[members] = count, done
        rows = torch.nonzero(moved & ~done).flatten()
        if count == limit or not len(rows):
            break
        members, before = members[rows], state.take(rows)
        history = [step.take(rows) for step in history]
        directions = _directions(before.gradients, history, curvature[members])
        state, moved = _search(function, before, directions, members)
        history = [*history, _step(before, state)][-MEMORY:]
    return Minimum(final, steps, met)


def _step(before: State, after: State) -> Step:
    step, change = after.points - before.points, after.gradients - before.gradients
    product = _dot(step, change)
    return Step(step, change, torch.where(product > 0, 1 / product, 0.0))


def _directions(gradients: Points, history: Sequence[Step], curvature: Points) -> Points:
    """Minus the modelled inverse Hessian times the gradients (Nocedal and Wright, algorithm 7.4)."""
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


def _search(function: Function, state: State, directions: Points, members: Members) -> tuple[State, Mask]:
    """Points along the directions that are low enough, by halving the step, and where there was one.

    No step is too short to model the curvature, as a convex function has some along every step.
    """
    found, slopes = state.copy(), _dot(state.gradients, directions)
    pending, size = torch.arange(len(slopes), device=slopes.device), 1.0
    for _ in range(TRIALS):
        points = state.points[pending] + size * directions[pending]
        trial = State(points, *function(points, members[pending]))
        good = trial.values <= state.values[pending] + DECREASE * size * slopes[pending]
        found.put(pending[good], trial.take(good))
        pending, size = pending[~good], size / 2
        if not len(pending):
            break
    moved = torch.ones_like(members, dtype=torch.bool)
    moved[pending] = False
    return found, moved


def _dot(a: Points, b: Points) -> Values:
    return (a * b).sum(-1)
