"""Linear probe: how well a linear classifier tells classes by each layer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.transfer import bootstrap, lbfgs, logistic
from isopix.transfer.evidence import LayerScore, Protocol, Record
from isopix.transfer.logistic import Fits

DEAD = 1e-6  # a feature whose deviation is below this share of its mean only shows float32's rounding
BUDGET = 2**31  # bytes that the layers solved together may take

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Split:
    """The features of F layers of some images, and the images' classes."""

    features: Float[Tensor, "F B D"]
    labels: Labels

    def layers(self, first: int, end: int) -> "Split":
        """The same images, some layers alone."""
        return Split(self.features[first:end], self.labels)

    def copy(self) -> "Split":
        """The same in memory of its own."""
        return Split(self.features.clone(), self.labels)

    def to(self, device: torch.device) -> "Split":
        """The same on that device."""
        return Split(self.features.to(device), self.labels.to(device))


@dataclass(frozen=True)
class Splits:
    """What a probe learns from, chooses by, and is judged on."""

    train: Split
    validation: Split
    test: Split

    def map(self, change: Callable[[Split], Split]) -> "Splits":
        """The same change made to each."""
        return Splits(change(self.train), change(self.validation), change(self.test))

    def folded(self) -> "Splits":
        """The same with validation's images in train as well."""
        features = torch.cat([self.train.features, self.validation.features], 1)
        return replace(self, train=Split(features, torch.cat([self.train.labels, self.validation.labels])))


def probe(
    splits: Splits, protocol: Protocol, *, device: torch.device, progress: Progress | None = None
) -> Record:
    """Every layer at its best strength; strength and best layer chosen on validation, all reported on test.

    Features are standardised by train's mean and deviation. `progress` is told how many layers are done.
    Raises ValueError where there is nothing to learn or choose from, RuntimeError if a chosen fit did not
    converge.
    """
    _check(splits)
    # Apple's devices have no float64, without which a fit cannot be proven to have converged.
    solver = _Solver(splits, protocol, torch.device("cpu") if device.type == "mps" else device)
    scores: list[LayerScore] = []
    count, together = len(splits.train.features), solver.together()
    for first, end in pairwise([*range(0, count, together), count]):
        scores += solver.solve(first, end)
        if progress:
            progress(end)
    return Record(
        layers=tuple(scores),
        best=max(range(count), key=lambda layer: scores[layer].validation),
        classes=len(solver.classes),
        majority=(splits.test.labels == splits.train.labels.mode().values).double().mean().item(),
        images={name: len(getattr(splits, name).labels) for name in ("train", "validation", "test")},
        warnings=_warnings(scores, protocol),
    )


class _Solver:
    """The fits, choices and scores of a few layers at a time."""

    def __init__(self, splits: Splits, protocol: Protocol, device: torch.device):
        self.splits, self.protocol, self.device = splits, protocol, device
        self.classes = torch.tensor(sorted(set(splits.train.labels.tolist())), device=device)
        random = generator(protocol.seed, "probe.bootstrap")
        self.resamples = bootstrap.draw(len(splits.test.labels), protocol.resamples, random)

    def together(self) -> int:
        """How many layers fit into BUDGET: features, given and twice in float64, and the weights' history."""
        _, images, width = self.splits.train.features.shape
        fits = len(self.protocol.strengths) * len(self.classes) * width
        return max(1, BUDGET // (20 * images * width + 8 * (2 * lbfgs.MEMORY + 10) * fits))

    def solve(self, first: int, end: int) -> list[LayerScore]:
        """The scores of the layers from `first` up to `end`."""
        raw = self.splits.map(lambda split: split.layers(first, end).to(self.device))
        splits = standardised(raw)
        fits, validation = self._choose(splits, self.protocol.strengths)
        edge = torch.nonzero(fits.strengths[:, 0] == min(self.protocol.strengths)).flatten()
        if self.protocol.weaker and len(edge):
            self._try_weaker(splits, edge, fits, validation)
        _refuse_unconverged(fits, first)
        if self.protocol.refit:
            splits = standardised(raw.folded())
            fits = self._fit(splits.train, fits.strengths)
            _refuse_unconverged(fits, first)
        hits = self._correct(fits, splits.test)[:, 0].cpu()
        low, high = bootstrap.interval(hits, self.resamples)
        columns = (validation, hits.double().mean(1), low, high)
        return _scores(first, fits, [column.tolist() for column in columns])

    def _choose(self, splits: Splits, strengths: tuple[float, ...]) -> tuple[Fits, Float[Tensor, " F"]]:
        """Each layer's fit that is best on validation, and how good it is there."""
        # Strongest first, so that of equally good strengths the strongest is chosen.
        grid = torch.tensor(sorted(strengths, reverse=True), dtype=torch.float64)
        fits = self._fit(splits.train, grid.expand(len(splits.train.features), -1))
        validation = self._correct(fits, splits.validation).double().mean(-1)
        return fits.take(validation.argmax(-1, keepdim=True)), validation.amax(-1)

    def _try_weaker(
        self, splits: Splits, layers: Int[Tensor, " E"], fits: Fits, validation: Float[Tensor, " F"]
    ) -> None:
        """Replace the fits of these layers where a weaker strength is better on validation."""
        alone = splits.map(lambda split: replace(split, features=split.features[layers]))
        others, reached = self._choose(alone, self.protocol.weaker)
        better = torch.nonzero(reached > validation[layers]).flatten()
        fits.put(layers[better], others.rows(better))
        validation[layers[better]] = reached[better]

    def _fit(self, train: Split, strengths: Float[Tensor, "F S"]) -> Fits:
        targets = torch.searchsorted(self.classes, train.labels)
        return logistic.fit(train.features, targets, strengths.to(self.device), classes=len(self.classes))

    def _correct(self, fits: Fits, split: Split) -> Bool[Tensor, "F S B"]:
        return self.classes[fits.predict(split.features)] == split.labels


def standardised(splits: Splits) -> Splits:
    """Each feature with mean 0 and deviation 1 over train; one that is constant there becomes 0."""
    train = splits.train.features.double()
    centre, deviation = train.mean(1, keepdim=True), train.std(1, keepdim=True, correction=0)
    scale = torch.where(deviation > DEAD * centre.abs(), 1 / deviation, 0.0)
    return splits.map(lambda split: replace(split, features=((split.features - centre) * scale).float()))


def _check(splits: Splits) -> None:
    for name in ("train", "validation", "test"):
        split = getattr(splits, name)
        if not len(split.labels):
            raise ValueError(f"the {name} split holds no images; a probe needs some in every split")
        for layer, features in enumerate(split.features):
            if not features.isfinite().all():
                raise RuntimeError(f"features of layer {layer} are not finite in the {name} split")
    if len(set(splits.train.labels.tolist())) < 2:
        raise ValueError("the train split holds images of one class only; a probe needs two or more")


def _refuse_unconverged(fits: Fits, first: int) -> None:
    """No number is reported of a fit that has not converged."""
    for layer in torch.nonzero(~fits.converged[:, 0]).flatten().tolist():
        raise RuntimeError(
            f"layer {first + layer}: the fit with strength {fits.strengths[layer, 0]:.3g} did not converge; "
            f"its gradient is {fits.gradients[layer, 0]:.3g} after {fits.steps[layer, 0]} steps, "
            f"allowed: {fits.limits[layer, 0]:.3g}"
        )


def _scores(first: int, fits: Fits, columns: list[list[float]]) -> list[LayerScore]:
    tell = (fits.strengths, fits.objectives, fits.gradients, fits.steps)
    rows = zip(*columns, *(each[:, 0].tolist() for each in tell), strict=True)
    return [
        LayerScore(first + layer, strength, validation, test, low, high, objective, gradient, steps)
        for layer, (validation, test, low, high, strength, objective, gradient, steps) in enumerate(rows)
    ]


def _warnings(scores: list[LayerScore], protocol: Protocol) -> tuple[str, ...]:
    low, high = min(protocol.strengths + protocol.weaker), max(protocol.strengths)
    edge = [str(score.layer) for score in scores if score.strength in (low, high)]
    if not edge or low == high:
        return ()
    return (
        f"the chosen strength lies on the edge of the grid {low:g} .. {high:g} in layer {', '.join(edge)}",
    )
