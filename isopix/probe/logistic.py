"""Multinomial logistic regression: many features and strengths at once, each fit checked for convergence.

Over weights W [K D] and intercepts b [K], minimise

    mean over images of -log softmax(W x + b)[label]  +  strength / 2 |W|^2   (nats an image; b is free)

scikit-learn's `LogisticRegression` minimises N C times this, with C = 1 / (strength N). For two classes it
penalises the difference of the two weight vectors, so there C = 2 / (strength N).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.types import Labels
from isopix.probe import lbfgs

Features = Float[Tensor, "F B D"]  # F sets of features of the same images
Strengths = Float[Tensor, "F S"]  # S penalties for each set

GAP = 3e-7  # how far above its minimum an objective may be, as a share of it
GRADIENT = 1e-5  # and how long its gradient: strong penalties would stop where predictions still move
LIMIT = 5000  # steps
# Numbers in a block of images, features and logits: what a cache holds, or enough to keep many cores busy.
BLOCKS = {"cpu": 2**20, "cuda": 2**26}


@dataclass(frozen=True)
class Fits:
    """A fit for each set of features and each strength; float64, where the features were.

    `objectives` are in nats an image; `gradients` are the lengths of the last gradients (of centred
    features), `limits` what these had to fall to.
    """

    weights: Float[Tensor, "F S K D"]
    intercepts: Float[Tensor, "F S K"]
    strengths: Float[Tensor, "F S"]
    objectives: Float[Tensor, "F S"]
    gradients: Float[Tensor, "F S"]
    limits: Float[Tensor, "F S"]
    steps: Int[Tensor, "F S"]
    converged: Bool[Tensor, "F S"]

    def take(self, columns: Int[Tensor, "F T"]) -> "Fits":
        """For each set of features those of its fits that its row names."""
        rows = torch.arange(len(columns), device=columns.device)[:, None]
        return Fits(**{field.name: getattr(self, field.name)[rows, columns] for field in fields(self)})

    def rows(self, sets: Int[Tensor, " E"]) -> "Fits":
        """The fits of these sets of features alone."""
        return Fits(**{field.name: getattr(self, field.name)[sets] for field in fields(self)})

    def put(self, sets: Int[Tensor, " E"], other: "Fits") -> None:
        """Write the other's fits over those of these sets."""
        for field in fields(self):
            getattr(self, field.name)[sets] = getattr(other, field.name)

    def scores(self, features: Features) -> Float[Tensor, "F S B K"]:
        """The logits of each image by each fit."""
        return torch.stack(list(self._by_set(features)))

    def predict(self, features: Features) -> Int[Tensor, "F S B"]:
        """The class of each image by each fit."""
        return torch.stack([each.argmax(-1) for each in self._by_set(features)])

    def _by_set(self, features: Features) -> Iterator[Float[Tensor, "S B K"]]:
        for x, w, b in zip(features, self.weights, self.intercepts, strict=True):
            yield torch.einsum("bd,skd->sbk", x.to(w), w) + rearrange(b, "s k -> s 1 k")


def fit(
    features: Features, labels: Labels, strengths: Strengths, *, classes: int, limit: int = LIMIT
) -> Fits:
    """The minimum for each set of features and each strength, computed in float64 where the features are.

    Converged means that the gradient is no longer than 1e-5, and that |gradient|^2 / (2 strength), which by
    strong convexity is the most that other weights could still gain, is 3e-7 of the objective or less.

    Features are first centred and turned to their principal axes: the minimum stays (the intercept is free
    and the penalty round), and L-BFGS starts from nearly the true curvature.
    """
    strengths = strengths.to(features.device, torch.float64)
    frame = _Frame(features)
    problem = _Softmax(frame.features, labels, strengths, classes)
    found = lbfgs.minimise(
        problem, problem.start(), curvature=problem.curvature(frame.spread), stop=problem.met, limit=limit
    )
    values, gradients, shape = found.state.values, found.state.gradients, strengths.shape
    weights, intercepts = frame.restore(found.state.points.reshape(*shape, classes, -1))
    return Fits(
        weights=weights,
        intercepts=intercepts,
        strengths=strengths,
        objectives=values.reshape(shape),
        gradients=gradients.norm(dim=-1).reshape(shape),
        limits=_length_allowed(strengths.flatten(), values).reshape(shape),
        steps=found.steps.reshape(shape),
        converged=found.met.reshape(shape),
    )


def _length_allowed(strengths: lbfgs.Values, values: lbfgs.Values) -> lbfgs.Values:
    """The longest gradient of a fit that counts as converged."""
    return (2 * strengths * GAP * values).sqrt().clamp(max=GRADIENT)


class _Frame:
    """Features in float64, centred, along their principal axes, with a column of ones: [F N axes+1].

    Of more axes than images only the widest are kept: beyond the images' span the best weights are zero.
    """

    def __init__(self, features: Features):
        images, width = features.shape[1:]
        self.centre = features.mean(1, dtype=torch.float64)
        centred = features - self.centre[:, None]
        spread, axes = torch.linalg.eigh(centred.mT @ centred / images)
        kept = min(images, width)
        self.spread, self.axes = spread[..., -kept:].clamp_min(0), axes[..., -kept:]
        self.features = centred @ F.pad(self.axes, (0, 1))
        self.features[..., -1] = 1

    def restore(self, points: Float[Tensor, "F S K n"]) -> tuple[Tensor, Tensor]:
        """Weights and intercepts for the features as they were given."""
        weights = torch.einsum("fska,fda->fskd", points[..., :-1], self.axes)
        return weights, points[..., -1] - torch.einsum("fskd,fd->fsk", weights, self.centre)


class _Softmax:
    """The objectives: problem f * S + s has the features f and the strength s."""

    def __init__(self, features: Features, labels: Labels, strengths: Strengths, classes: int):
        self.features, self.labels, self.classes = features, labels.to(features.device), classes
        self.strengths, self.per_set = strengths.flatten(), strengths.shape[1]
        self.shares = torch.bincount(self.labels, minlength=classes).to(features) / len(labels)

    def start(self) -> lbfgs.Points:
        """Weights of zero and the intercepts that are best for them."""
        points = self.features.new_zeros(len(self.strengths), self.classes, self.features.shape[2])
        points[..., -1] = self.shares.log()
        return points.flatten(1)

    def curvature(self, spread: Float[Tensor, "F axes"]) -> lbfgs.Points:
        """The Hessian's diagonal near the start, where the probabilities are the classes' shares."""
        spread = F.pad(spread, (0, 1), value=1.0).repeat_interleave(self.per_set, 0)
        penalty = repeat(self.strengths, "p -> p 1 n", n=spread.shape[1]).clone()
        penalty[..., -1] = 0
        return (torch.einsum("k,pn->pkn", self.shares, spread) + penalty).flatten(1)

    def __call__(self, points: lbfgs.Points, members: lbfgs.Members) -> tuple[lbfgs.Values, lbfgs.Points]:
        penalised = rearrange(points, "p (k n) -> p k n", k=self.classes).clone()
        penalised[..., -1] = 0
        strengths = self.strengths[members]
        values = strengths / 2 * penalised.square().sum((1, 2))
        gradients = strengths[:, None] * penalised.flatten(1)
        sets = members // self.per_set
        for index in sorted(set(sets.tolist())):
            rows = sets == index
            value, gradient = self._nats(self.features[index], points[rows])
            values[rows] += value
            gradients[rows] += gradient
        return values, gradients

    def _nats(
        self, features: Float[Tensor, "B axes"], points: lbfgs.Points
    ) -> tuple[lbfgs.Values, lbfgs.Points]:
        """Mean nats and their gradients, of the problems that share one set of features."""
        weights = rearrange(points, "p (k n) -> (p k) n", k=self.classes)
        values, gradients = points.new_zeros(len(points)), torch.zeros_like(weights)
        count, size = len(features), max(1, BLOCKS[features.device.type] // sum(weights.shape))
        for start in range(0, count, size):
            x, labels = features[start : start + size], self.labels[start : start + size]
            column = torch.arange(len(labels), device=x.device)
            logs = rearrange(weights @ x.T, "(p k) b -> p k b", k=self.classes).log_softmax(1)
            values -= logs[:, labels, column].sum(1)
            errors = logs.exp_()
            errors[:, labels, column] -= 1
            gradients += rearrange(errors, "p k b -> (p k) b") @ x
        return values / count, rearrange(gradients, "(p k) n -> p (k n)", k=self.classes) / count

    def met(self, values: lbfgs.Values, gradients: lbfgs.Points, members: lbfgs.Members) -> lbfgs.Mask:
        """Which problems have converged."""
        return gradients.norm(dim=-1) <= _length_allowed(self.strengths[members], values)
