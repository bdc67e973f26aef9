"""Multinomial logistic regression: many layers and L2 penalties at once, each fit checked for convergence.

Over weights W [K D] and intercepts b [K], minimize

    mean over images of -log softmax(W x + b)[label]  +  l2 / 2 |W|^2   (nats per image; b is not penalized)

scikit-learn's `LogisticRegression` minimizes N C times this, with C = 1 / (l2 N). For two classes it
penalizes the difference of the two weight vectors, so there C = 2 / (l2 N).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.types import Labels
from isopix.probing.splits import Features

Points = Float[Tensor, "P n"]
Values = Float[Tensor, " P"]
Members = Int[Tensor, " P"]  # the index of each row among all problems
Mask = Bool[Tensor, " P"]

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


def _minimize(
    objectives: "_Objectives", curvature: Points, max_iterations: int
) -> tuple[SearchState, Members, Mask]:
    """Minimize all problems by L-BFGS; each stops by its own criterion and leaves the batch.

    `curvature` is a positive approximation of the Hessian's diagonal. Return the final state of each problem,
    its number of iterations, and whether it met its criterion.
    """
    start = objectives.start()
    members = torch.arange(len(start), device=start.device)
    state = SearchState(start, *objectives(start, members))
    final, iterations = state.clone(), torch.zeros_like(members)
    converged = torch.zeros_like(members, dtype=torch.bool)
    moved = torch.ones_like(converged)
    history: list[Step] = []
    for count in range(max_iterations + 1):
        done = objectives.have_converged(state.values, state.gradients, members)
        final.assign(members, state)
        iterations[members], converged[members] = count, done
        rows = torch.nonzero(moved & ~done).flatten()
        if count == max_iterations or not len(rows):
            break
        members, before = members[rows], state.take(rows)
        history = [step.take(rows) for step in history]
        directions = _directions(before.gradients, history, curvature[members])
        state, moved = _search(objectives, before, directions, members)
        step, change = state.points - before.points, state.gradients - before.gradients
        product = _dot(step, change)
        newest = Step(step, change, torch.where(product > 0, 1 / product, 0.0))
        history = [*history, newest][-HISTORY_SIZE:]
    return final, iterations, converged


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
    objectives: "_Objectives", state: SearchState, directions: Points, members: Members
) -> tuple[SearchState, Mask]:
    """Return points that satisfy the Armijo condition, by backtracking, and where one was found.

    The curvature condition needs no check, as convex functions have positive curvature along every step.
    """
    found, slopes = state.clone(), _dot(state.gradients, directions)
    pending, size = torch.arange(len(slopes), device=slopes.device), 1.0
    for _ in range(MAX_HALVINGS):
        points = state.points[pending] + size * directions[pending]
        trial = SearchState(points, *objectives(points, members[pending]))
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


L2Penalties = Float[Tensor, "F S"]  # S penalties for each of F layers

RELATIVE_GAP = 3e-7  # how far an objective may be above its minimum, as a fraction of it
MAX_GRAD_NORM = 1e-5  # needed too: fits with large penalties would stop where predictions still change
MAX_ITERATIONS = 5000
# Numbers in a batch of images, features and logits: what a cache holds, or enough to occupy many cores.
BATCH_NUMBERS = {"cpu": 2**20, "cuda": 2**26}


class LinearFits(NamedTuple):
    """A linear classifier [K D] for each layer and each penalty; objectives are in nats per image."""

    weights: Float[Tensor, "F S K D"]
    intercepts: Float[Tensor, "F S K"]
    l2: Float[Tensor, "F S"]
    objectives: Float[Tensor, "F S"]
    grad_norms: Float[Tensor, "F S"]
    iterations: Int[Tensor, "F S"]
    converged: Bool[Tensor, "F S"]

    def take(self, columns: Int[Tensor, "F T"]) -> "LinearFits":
        rows = torch.arange(len(columns), device=columns.device)[:, None]
        return LinearFits(*(each[rows, columns] for each in self))

    def logits(self, features: Features) -> Float[Tensor, "F S B K"]:
        return torch.stack(list(self._by_layer(features)))

    def predict(self, features: Features) -> Int[Tensor, "F S B"]:
        return torch.stack([each.argmax(-1) for each in self._by_layer(features)])

    def _by_layer(self, features: Features) -> Iterator[Float[Tensor, "S B K"]]:
        for x, w, b in zip(features, self.weights, self.intercepts, strict=True):
            yield torch.einsum("bd,skd->sbk", x.to(w), w) + rearrange(b, "s k -> s 1 k")


def fit_logistic(
    features: Features,
    labels: Labels,
    l2: L2Penalties,
    *,
    num_classes: int,
    max_iterations: int = MAX_ITERATIONS,
) -> LinearFits:
    """Find the minimum for each layer and each penalty, in float64 on the device of the features.

    A fit has converged if its gradient norm is at most 1e-5, and |gradient|^2 / (2 l2), which by strong
    convexity bounds the distance from the minimum, is at most 3e-7 of the objective. Features are centered
    and rotated to their principal axes, which keeps the minimum and gives L-BFGS nearly the true curvature.
    """
    l2 = l2.to(features.device, torch.float64)
    center = features.mean(1, dtype=torch.float64)
    x = features - center[:, None]
    _, variances, axes = decomposed_covariance(x)
    x = x @ F.pad(axes, (0, 1))  # [F N axes+1], with a column of ones
    x[..., -1] = 1
    objectives = _Objectives(x, labels, l2, num_classes)
    curvature, shape = objectives.curvature(variances), l2.shape
    (points, values, gradients), iterations, converged = _minimize(objectives, curvature, max_iterations)
    points = points.reshape(*shape, num_classes, -1)
    weights = torch.einsum("fska,fda->fskd", points[..., :-1], axes)
    return LinearFits(
        weights=weights,
        intercepts=points[..., -1] - torch.einsum("fskd,fd->fsk", weights, center),
        l2=l2,
        objectives=values.reshape(shape),
        grad_norms=gradients.norm(dim=-1).reshape(shape),
        iterations=iterations.reshape(shape),
        converged=converged.reshape(shape),
    )


def decomposed_covariance(
    centered: Float[Tensor, "F N D"],
) -> tuple[Float[Tensor, "F D D"] | None, Float[Tensor, "F axes"], Float[Tensor, "F D axes"]]:
    """Return covariance (None for more features than images), eigenvalues and axes."""
    images, width = centered.shape[1:]
    if width <= images:
        covariance = centered.mT @ centered / images
        variances, axes = torch.linalg.eigh(covariance)
        return covariance, variances.clamp_min(0), axes
    basis, triangle = torch.linalg.qr(centered.mT)  # the covariance is Q R R' Q' / images; Q spans the images
    variances, axes = torch.linalg.eigh(triangle @ triangle.mT / images)
    return None, variances.clamp_min(0), basis @ axes


class _Objectives:
    """The objectives and their gradients: problem f * S + s has the features of layer f and penalty s."""

    def __init__(self, features: Features, labels: Labels, l2: L2Penalties, num_classes: int):
        self.features, self.labels, self.num_classes = features, labels.to(features.device), num_classes
        self.l2, self.per_layer = l2.flatten(), l2.shape[1]
        counts = torch.bincount(self.labels, minlength=num_classes)
        self.frequencies = counts.to(features) / len(labels)

    def start(self) -> Points:
        """Return weights of zero and the intercepts that are optimal for them."""
        points = self.features.new_zeros(len(self.l2), self.num_classes, self.features.shape[2])
        points[..., -1] = self.frequencies.log()
        return points.flatten(1)

    def curvature(self, variances: Float[Tensor, "F axes"]) -> Points:
        """Return the Hessian's diagonal near the start, where probabilities are the class frequencies."""
        variances = F.pad(variances, (0, 1), value=1.0).repeat_interleave(self.per_layer, 0)
        penalty = repeat(self.l2, "p -> p 1 n", n=variances.shape[1]).clone()
        penalty[..., -1] = 0
        return (torch.einsum("k,pn->pkn", self.frequencies, variances) + penalty).flatten(1)

    def __call__(self, points: Points, members: Members) -> tuple[Values, Points]:
        weights = rearrange(points, "p (k n) -> p k n", k=self.num_classes).clone()
        weights[..., -1] = 0  # the intercepts, which are not penalized
        l2 = self.l2[members]
        values = l2 / 2 * weights.square().sum((1, 2))
        gradients = l2[:, None] * weights.flatten(1)
        layers = members // self.per_layer
        for layer in sorted(set(layers.tolist())):
            rows = layers == layer
            value, gradient = self._cross_entropy(self.features[layer], points[rows])
            values[rows] += value
            gradients[rows] += gradient
        return values, gradients

    def _cross_entropy(self, features: Float[Tensor, "B axes"], points: Points) -> tuple[Values, Points]:
        weights = rearrange(points, "p (k n) -> (p k) n", k=self.num_classes)
        values, gradients = points.new_zeros(len(points)), torch.zeros_like(weights)
        count, size = len(features), max(1, BATCH_NUMBERS[features.device.type] // sum(weights.shape))
        for start in range(0, count, size):
            x, labels = features[start : start + size], self.labels[start : start + size]
            column = torch.arange(len(labels), device=x.device)
            logs = rearrange(weights @ x.T, "(p k) b -> p k b", k=self.num_classes).log_softmax(1)
            values -= logs[:, labels, column].sum(1)
            errors = logs.exp_()
            errors[:, labels, column] -= 1
            gradients += rearrange(errors, "p k b -> (p k) b") @ x
        return values / count, rearrange(gradients, "(p k) n -> p (k n)", k=self.num_classes) / count

    def have_converged(self, values: Values, gradients: Points, members: Members) -> Mask:
        highest = (2 * self.l2[members] * RELATIVE_GAP * values).sqrt().clamp(max=MAX_GRAD_NORM)
        return gradients.norm(dim=-1) <= highest
