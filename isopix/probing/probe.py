"""The probe: classifiers of the features of every layer, selected on validation and evaluated on test.

A method fits classifiers to the features of layers, a few at a time.
"""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core import stats
from isopix.core.choices import Number, Pool
from isopix.core.config import from_dict
from isopix.core.overrides import parse
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.registry import Part, import_modules, kinds_of
from isopix.core.text import did_you_mean
from isopix.core.types import Labels
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import images_hash
from isopix.data.splits import majority_accuracy
from isopix.probing.config import ProbeConfig
from isopix.probing.results import ConcatScore, LayerScore, LayerScores
from isopix.probing.splits import Features, FeatureSplits
from isopix.storage.result import EnsembleAccuracy, Measurement

Probabilities = Float[Tensor, "F B C"]  # of each class; the highest is the prediction
Numbers = Sequence[Mapping[str, Number]]  # by name, of each layer


@dataclass(frozen=True)
class ProbeProblem:
    """The input of every method: features and labels of train and validation."""

    splits: FeatureSplits
    device: torch.device
    seed: int

    @cached_property
    def classes(self) -> Int[Tensor, " C"]:
        return torch.tensor(sorted(set(self.splits.train.labels.tolist())), device=self.device)

    def class_indices(self, labels: Labels) -> Labels:
        """Return the index of each label in `classes`; of a label that train does not have, any index."""
        indices = torch.searchsorted(self.classes, labels.to(self.classes.device))
        return indices.clamp(max=len(self.classes) - 1)

    def is_correct(self, predictions: Int[Tensor, "... B"], labels: Labels) -> Bool[Tensor, "... B"]:
        return self.classes[predictions] == labels.to(self.classes.device)

    def parts(self, num_layers: int) -> "Iterator[ProbeProblem]":
        """Divide the layers into problems of at most `num_layers`, or of one."""
        size = max(1, num_layers)
        for start in range(0, len(self.splits.train.features), size):
            yield replace(self, splits=self.splits.select_layers(start, start + size))


@dataclass(frozen=True)
class FittedProbe:
    """Classifiers of the next F layers, with what validation `selected` ({"L2 penalty": 1e-3})."""

    val_accuracy: Float[Tensor, " F"]
    predict_proba: Callable[[Features], Probabilities]
    selected: Numbers = ()
    fit: Numbers = ()


class ProbeMethod(Part, noun="probe"):
    """A classifier of frozen features; its fields are its settings."""

    streams: ClassVar[bool] = False
    """Whether it reads features a batch at a time, so that they may lie on disk."""
    pool: ClassVar[Pool | None] = None
    """The pooling of features that it needs; None for any."""

    def grid(self) -> Mapping[str, Sequence[Number]]:
        """Return the values that validation selects from, by name; selecting the first or last warns."""
        return {}

    def fixed(self, selected: Mapping[str, Number]) -> "ProbeMethod":
        """Return the same method with the selected values alone to select from."""
        return self

    @abc.abstractmethod
    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        """Fit all layers in order, some at a time."""


TEST_BATCH_SIZE = 256  # test images predicted at once; no setting, as the random ties depend on it


class EvaluatedProbe(NamedTuple):
    """A result, and which test images each layer classifies correctly."""

    result: LayerScores
    correct: Bool[Tensor, "F B"]


def probe_method(kind: str, settings: Sequence[str] = ()) -> ProbeMethod:
    """Return a registered method with its settings, as `name=value`. Raises ValueError for wrong ones."""
    import_modules("isopix.probing")
    known = kinds_of(ProbeMethod)
    if kind not in known:
        hint = did_you_mean(kind, known)
        raise ValueError(f"method is '{kind}'; {hint}allowed: {', '.join(sorted(known))}")
    return from_dict(known[kind], parse(settings))


def probe_measurement(
    measured: Measurement,
    data: ImageDataset,
    method: ProbeMethod,
    config: ProbeConfig,
    baselines: Mapping[str, float],
) -> Measurement:
    """Return the record of a probe's test accuracies, with those of its baselines."""
    chosen = ["layer"] if config.layer is None else []
    chosen += [name for name, grid in method.grid().items() if len(grid) > 1]
    images = f"chosen on {len(data.validation):,} validation images"
    return replace(
        measured,
        fitted_images=len(data.train),
        fitted_hash=images_hash(data.train, data.validation),
        selection=f"{' and '.join(chosen)} {images}" if chosen else "",
        baselines=dict(baselines),
    )


def evaluate_probe(
    splits: FeatureSplits, method: ProbeMethod, config: ProbeConfig, *, device: torch.device
) -> EvaluatedProbe:
    """Fit a classifier to every layer, standardized by train, select on validation, report on test.

    Raises ValueError for a single class, RuntimeError for features that are not finite and for a fit that
    does not converge.
    """
    _check(splits)
    # MPS devices have no float64, without which convergence cannot be verified.
    device = torch.device("cpu") if device.type == "mps" else device
    scores, correct = _scores(splits, method, config, device)
    best_index = max(range(len(scores)), key=lambda index: scores[index].val_accuracy)
    groups = splits.test.groups
    result = LayerScores(
        layers=tuple(scores),
        best_index=best_index,
        num_classes=len(set(splits.train.labels.tolist())),
        majority_accuracy=majority_accuracy(splits.train.labels, splits.test.labels),
        num_images={name: len(getattr(splits, name)) for name in ("train", "validation", "test")},
        num_features=splits.train.features.shape[2],
        concat=_concat(splits, best_index, method, config, device),
        num_test_groups=None if groups is None else len(set(groups.tolist())),
        warnings=_warnings(scores, method),
    )
    return EvaluatedProbe(result, correct)


def refit_on_validation(
    splits: FeatureSplits,
    selected: LayerScore,
    method: ProbeMethod,
    config: ProbeConfig,
    *,
    device: torch.device,
) -> LayerScore:
    """Fit the selected layer to train and validation (iGPT section 3.1), keeping its `val_accuracy`."""
    fixed = method.fixed(selected.selected)
    score = evaluate_probe(splits.with_validation_in_train(), fixed, config, device=device).result.best
    return replace(score, layer=selected.layer, val_accuracy=selected.val_accuracy)


def _scores(
    splits: FeatureSplits, method: ProbeMethod, config: ProbeConfig, device: torch.device
) -> tuple[list[LayerScore], Bool[Tensor, "F B"]]:
    problem = ProbeProblem(splits, device, config.seed)
    scores, correct = list[LayerScore](), list[Bool[Tensor, "F B"]]()
    with track("fitting probes of layers", len(splits.train.features)) as fitted_layers:
        for fitted in method.fit_layers(problem):
            layers = splits.select_layers(len(scores), len(scores) + len(fitted.val_accuracy))
            found, right = _evaluate(fitted, layers, problem, masked=config.mask_ensemble > 0)
            scores += found
            correct.append(right)
            fitted_layers(len(scores))
    return scores, torch.cat(correct)


def _evaluate(
    fitted: FittedProbe, splits: FeatureSplits, problem: ProbeProblem, *, masked: bool
) -> tuple[list[LayerScore], Bool[Tensor, "F B"]]:
    count = len(fitted.val_accuracy)
    layers = range(splits.first_layer, splits.first_layer + count)
    generators = [generator(problem.seed, "probe.vote", layer) for layer in layers]
    batches = []
    for start in range(0, len(splits.test), TEST_BATCH_SIZE):
        part = slice(start, start + TEST_BATCH_SIZE)
        views = (view.features[:, part].to(problem.device) for view in splits.test_views)
        probabilities = torch.stack([fitted.predict_proba(view) for view in views], 1)  # [F K B C]
        predictions = probabilities.argmax(-1)
        voted = torch.stack([vote(*pair) for pair in zip(predictions, generators, strict=True)])
        averaged = torch.stack([each.mean(0).argmax(-1) for each in probabilities])
        correct, single, mean = (
            problem.is_correct(each, splits.test.labels[part]).cpu()
            for each in (voted, predictions, averaged)
        )
        batches.append((correct, single.double().mean(1), mean.double()))
    correct, single, mean = (torch.cat(each, 1) for each in zip(*batches, strict=True))
    accuracies = zip(single.mean(1).tolist(), mean.mean(1).tolist(), strict=True)
    columns = (
        layers,
        fitted.val_accuracy.tolist(),
        correct.double().mean(1).tolist(),
        stats.accuracy_interval(correct, splits.test.groups),
        fitted.selected or [{}] * count,
        fitted.fit or [{}] * count,
        [EnsembleAccuracy(*pair) if masked else None for pair in accuracies],
    )
    return [LayerScore(*row) for row in zip(*columns, strict=True)], correct


def vote(predictions: Int[Tensor, "K B"], random: torch.Generator) -> Labels:
    """Return the most frequent of K predictions per image; ties are broken at random (iGPT section 4.6)."""
    counts = F.one_hot(predictions).sum(0)
    draws = torch.rand(counts.shape, generator=random, dtype=torch.float64).to(counts.device)
    return draws.masked_fill(counts < counts.amax(-1, keepdim=True), -1.0).argmax(-1)


def _concat(
    splits: FeatureSplits, best_index: int, method: ProbeMethod, config: ProbeConfig, device: torch.device
) -> ConcatScore | None:
    count = len(splits.train.features)
    size = min(config.concat, count)
    start = min(max(best_index - config.concat // 2, 0), count - size)
    if size < 2:
        return None
    [score], _ = _scores(splits.select_layers(start, start + size).concat_layers(), method, config, device)
    first = splits.first_layer + start
    return ConcatScore(tuple(range(first, first + size)), score)


def _check(splits: FeatureSplits) -> None:
    views = [("test", view) for view in splits.test_views]
    for name, split in [("train", splits.train), ("validation", splits.validation), *views]:
        for chunk in split.chunks():
            for index in torch.nonzero(~chunk.features.isfinite().all(2).all(1)).flatten().tolist():
                layer = splits.first_layer + index
                raise RuntimeError(f"features of layer {layer} are not finite in the {name} split")
    if len(set(splits.train.labels.tolist())) < 2:
        raise ValueError("the train split has images of one class only; a probe needs at least two classes")


def _warnings(scores: list[LayerScore], method: ProbeMethod) -> tuple[str, ...]:
    warnings, setting = [], next((each for each in vars(method) if each.endswith("_grid")), "the grid")
    for name, grid in method.grid().items():
        edges = {min(grid), max(grid)} if len(grid) > 1 else set()
        if layers := [str(score.layer) for score in scores if score.selected[name] in edges]:
            warnings.append(
                f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}: the selected {name} is at "
                f"the edge of the grid ({min(grid):g} to {max(grid):g}); set {setting} to extend it"
            )
    return tuple(warnings)
