"""The probe: classifiers of the features of every layer, selected on validation and evaluated on test."""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.core import stats
from isopix.core.measurement import EnsembleAccuracy
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.data.splits import majority_accuracy
from isopix.probing import mask_ensemble
from isopix.probing.base import FittedProbe, ProbeProblem
from isopix.probing.checks import check_fitted, check_grid, check_layers, check_probabilities
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import FeatureSplits
from isopix.probing.results import SELECTED_LABELS, ConcatResult, LayerScore, ProbeResult

TEST_BATCH_SIZE = 256  # test images predicted at once; no setting, as the random ties depend on it


class EvaluatedProbe(NamedTuple):
    """A result, whether each layer classifies each test image correctly, and the bootstrap samples of the
    test images.
    """

    result: ProbeResult
    correct: Bool[Tensor, "F B"]
    resamples: stats.ResampleCounts

    @property
    def best_correct(self) -> Bool[Tensor, " B"]:
        """Whether the best layer classifies each test image correctly."""
        return self.correct[self.result.best_index]


def fit_probe(splits: FeatureSplits, config: ProbeConfig, *, device: torch.device) -> ProbeResult:
    """Fit a classifier to every layer, select its setting and the best layer on validation, and report all
    layers on test.

    Features are standardized by the mean and standard deviation of train. Raises ValueError where there is
    nothing to fit to or select on, and for a method that returns anything else than `ProbeMethod` asks for;
    RuntimeError if a selected fit did not converge.
    """
    return evaluate_probe(splits, config, device=device).result


def evaluate_probe(splits: FeatureSplits, config: ProbeConfig, *, device: torch.device) -> EvaluatedProbe:
    """Do what `fit_probe` does, and also return which test images are classified correctly."""
    _check(splits)
    check_grid(config)
    # MPS devices have no float64, without which convergence cannot be verified.
    device = torch.device("cpu") if device.type == "mps" else device
    evaluator = _Evaluator(splits, config, device)
    scores, correct = evaluator.scores(splits)
    best_index = max(range(len(scores)), key=lambda index: scores[index].val_accuracy)
    groups = splits.test.groups
    result = ProbeResult(
        layers=tuple(scores),
        best_index=best_index,
        num_classes=len(evaluator.classes),
        majority_accuracy=majority_accuracy(splits.train.labels, splits.test.labels),
        num_images={name: len(getattr(splits, name)) for name in ("train", "validation", "test")},
        warnings=_warnings(scores, config),
        concat=_concat(splits, best_index, evaluator),
        num_test_groups=None if groups is None else len(set(groups.tolist())),
        num_features=splits.train.features.shape[2],
    )
    return EvaluatedProbe(result, correct, evaluator.resamples)


def refit_on_validation(
    splits: FeatureSplits, selected: LayerScore, config: ProbeConfig, *, device: torch.device
) -> LayerScore:
    """Fit the selected layer, the only one of `splits`, to train and validation together at the selected
    setting, and evaluate it on test (iGPT section 3.1).

    Features are standardized by all images of the fit. `val_accuracy` stays the one that the layer was
    selected by, as the validation images are no longer held out. Raises what `probe` raises.
    """
    name, _ = config.method.grid(config.l2_grid)
    method = config.method.fix(getattr(selected, name))
    l2_grid = config.l2_grid if selected.l2 is None else (selected.l2,)
    fixed = replace(config, method=method, l2_grid=l2_grid, l2_extra=())
    score = fit_probe(splits.with_validation_in_train(), fixed, device=device).best
    return replace(score, layer=selected.layer, val_accuracy=selected.val_accuracy)


class _Evaluator:
    """Fits layers by the config's method and evaluates the predictions for the test images."""

    def __init__(self, splits: FeatureSplits, config: ProbeConfig, device: torch.device):
        self.config, self.device = config, device
        self.classes = torch.tensor(sorted(set(splits.train.labels.tolist())), device=device)
        random = generator(config.seed, "probe.bootstrap")
        self.resamples = stats.resample_counts(
            len(splits.test), config.num_resamples, random, splits.test.groups
        )

    def scores(self, splits: FeatureSplits) -> tuple[list[LayerScore], Bool[Tensor, "F B"]]:
        """Return the score of every layer, and whether it classifies each test image correctly."""
        config = self.config
        problem = ProbeProblem(
            splits, self.classes, self.device, config.l2_grid, config.l2_extra, config.seed
        )
        scores, correct = list[LayerScore](), list[Bool[Tensor, "F B"]]()
        count = len(splits.train.features)
        with track("fitting probes of layers", count) as fitted_layers:
            for fitted in config.method.fit_layers(problem):
                check_fitted(config.method, fitted, count - len(scores))
                layers = splits.select_layers(len(scores), len(scores) + len(fitted.diagnostics))
                predicted = self._predict(fitted, layers, problem)
                scores += self._score(fitted, layers, *predicted)
                correct.append(predicted[0])
                fitted_layers(len(scores))
        check_layers(config.method, len(scores), count)
        return scores, torch.cat(correct)

    def _score(
        self,
        fitted: FittedProbe,
        splits: FeatureSplits,
        correct: Bool[Tensor, "F B"],
        ensembles: list[EnsembleAccuracy],
    ) -> list[LayerScore]:
        accuracy = correct.double().mean(1)
        intervals = stats.accuracy_interval(correct, splits.test.groups)
        absent = dict.fromkeys(("l2", "objective", "grad_norm", "iterations"))
        return [
            LayerScore(
                layer=splits.first_layer + index,
                val_accuracy=fitted.val_accuracy[index].item(),
                test_accuracy=accuracy[index].item(),
                interval=intervals[index],
                ensemble=ensembles[index] if self.config.mask_ensemble else None,
                **absent | diagnostics,
            )
            for index, diagnostics in enumerate(fitted.diagnostics)
        ]

    def _predict(
        self, fitted: FittedProbe, splits: FeatureSplits, problem: ProbeProblem
    ) -> tuple[Bool[Tensor, "F B"], list[EnsembleAccuracy]]:
        """Return whether the majority vote over the views is correct, and how accurate one view and the mean
        probability are.
        """
        layers = range(splits.first_layer, splits.first_layer + len(fitted.diagnostics))
        generators = [generator(self.config.seed, "probe.vote", layer) for layer in layers]
        vote, single, mean = [], [], []
        for start in range(0, len(splits.test), TEST_BATCH_SIZE):
            part = slice(start, start + TEST_BATCH_SIZE)
            labels = splits.test.labels[part]
            views = (view.features[:, part].to(self.device) for view in splits.test_views)
            shape = (len(layers), len(labels), len(self.classes))
            predicted = [fitted.predict_proba(view) for view in views]
            check_probabilities(self.config.method, predicted, shape)
            probabilities = torch.stack(predicted, 1)  # [F K B C]
            predictions = probabilities.argmax(-1)
            voted = torch.stack(
                [mask_ensemble.mode(*pair) for pair in zip(predictions, generators, strict=True)]
            )
            averaged = torch.stack([mask_ensemble.mean_probability(each) for each in probabilities])
            vote.append(problem.is_correct(voted, labels).cpu())
            single.append(problem.is_correct(predictions, labels).double().mean(1).cpu())
            mean.append(problem.is_correct(averaged, labels).cpu())
        accuracies = (torch.cat(batches, 1).double().mean(1).tolist() for batches in (single, mean))
        return torch.cat(vote, 1), [EnsembleAccuracy(*pair) for pair in zip(*accuracies, strict=True)]


def _concat(splits: FeatureSplits, best_index: int, evaluator: _Evaluator) -> ConcatResult | None:
    """Probe the layers around the best one, concatenated and moved inwards at an end; none if one."""
    wanted, count = evaluator.config.concat, len(splits.train.features)
    size = min(wanted, count)
    start = min(max(best_index - wanted // 2, 0), count - size)
    if size < 2:
        return None
    [score], _ = evaluator.scores(splits.select_layers(start, start + size).concat_layers())
    first = splits.first_layer + start
    return ConcatResult(tuple(range(first, first + size)), score)


def _check(splits: FeatureSplits) -> None:
    for name in ("train", "validation", "test"):
        if not len(getattr(splits, name)):
            raise ValueError(f"the {name} split has no images; a probe needs some in every split")
    views = [("test", view) for view in splits.test_views]
    for name, split in [("train", splits.train), ("validation", splits.validation), *views]:
        for chunk in split.chunks():
            for index in torch.nonzero(~chunk.features.isfinite().all(2).all(1)).flatten().tolist():
                layer = splits.first_layer + index
                raise RuntimeError(f"features of layer {layer} are not finite in the {name} split")
    if len(set(splits.train.labels.tolist())) < 2:
        raise ValueError("the train split has images of one class only; a probe needs at least two classes")


def _warnings(scores: list[LayerScore], config: ProbeConfig) -> tuple[str, ...]:
    name, grid = config.method.grid(config.l2_grid + config.l2_extra)
    edges = {min(grid), max(grid)} if len(grid) > 1 else set()
    layers = [str(score.layer) for score in scores if getattr(score, name) in edges]
    if not layers:
        return ()
    setting, noun = f"{name}_grid", "layer" if len(layers) == 1 else "layers"
    how = f"isopix probe RUN --method {config.method.kind} {setting}=[...]"
    if name == "l2":  # no setting of the method, and so none of the command line
        how = f"isopix.probe(run, {setting}=[...]) in Python"
    return (
        f"{noun} {', '.join(layers)}: the selected {SELECTED_LABELS[name]} is at the edge of the grid "
        f"({min(grid):g} to {max(grid):g}); to extend it: {how}",
    )
