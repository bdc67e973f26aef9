"""Baselines of a probe: an untrained network, raw pixels and shuffled labels."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median, median_low, variance
from typing import Any

import torch

from isopix.core.measurement import EnsembleAccuracy
from isopix.core.random import generator
from isopix.core.stats import Z_95, percentile_interval
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import FeatureSplit, FeatureSplits
from isopix.probing.probe import EvaluatedProbe, evaluate_probe, fit_probe, refit_on_validation
from isopix.probing.results import Gain, LayerScore, ProbeReport, ProbeResult

NUM_PERMUTATIONS = 5  # of the labels; the accuracy of one may be far from chance, as images are correlated

RAW_PIXELS, PIXEL_COMPONENTS = "raw pixels", "raw pixels, PCA"  # baselines without a network

ReadFeatures = Callable[[], FeatureSplits]


def baseline_title(name: str, num_features: int | None) -> str:
    """Return the name of a baseline, of raw pixels with their number: `raw pixels, PCA (64 features)`."""
    if name not in (RAW_PIXELS, PIXEL_COMPONENTS) or num_features is None:
        return name
    return f"{name} ({num_features:,} features)"


def _mean_ensemble(ensembles: Sequence[EnsembleAccuracy]) -> EnsembleAccuracy:
    return EnsembleAccuracy(
        mean(each.single_mask for each in ensembles), mean(each.mean_probability for each in ensembles)
    )


# Of the fields of `LayerScore` over permutations; a field that the method does not have stays None.
REDUCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "l2": median,
    "val_accuracy": mean,
    "objective": mean,
    "grad_norm": max,
    "iterations": max,
    "lr": median,
    "neighbors": median_low,
    "ensemble": _mean_ensemble,
}


def probe_with_baselines(
    network: ReadFeatures, baselines: Mapping[str, ReadFeatures], *, config: ProbeConfig, device: torch.device
) -> ProbeReport:
    """Probe a network, each baseline, and the network's best layer with shuffled labels; refit that layer on
    train and validation if the config asks for it.

    Features are read one source at a time and released before the next is read. The layers of a baseline are
    numbered from its own first. Raises what `probe` raises.
    """
    probed, best_layer = _probe_and_keep_best(network(), config, device)
    others = {name: evaluate_probe(read(), config, device=device) for name, read in baselines.items()}
    results = {name: other.result for name, other in others.items()}
    results["shuffled labels"] = shuffled_label_baseline(best_layer, config, device=device)
    refit = None
    if config.refit_on_validation:
        refit = refit_on_validation(best_layer, probed.result.best, config, device=device)
    return ProbeReport(config, probed.result, results, refit, gain=gain_over_best(probed, others))


def gain_over_best(probed: EvaluatedProbe, baselines: Mapping[str, EvaluatedProbe]) -> Gain | None:
    """Compare a probe with the baseline of the highest test accuracy; None without any."""
    if not baselines:
        return None
    name = max(baselines, key=lambda each: baselines[each].result.best.test_accuracy)
    difference = probed.best_correct.double() - baselines[name].best_correct.double()
    low, high = percentile_interval(difference[None], probed.resamples)
    return Gain(name, difference.mean().item(), (low.item(), high.item()))


def _probe_and_keep_best(
    splits: FeatureSplits, config: ProbeConfig, device: torch.device
) -> tuple[EvaluatedProbe, FeatureSplits]:
    probed = evaluate_probe(splits, config, device=device)
    index = probed.result.best_index
    best_layer = splits.select_layers(index, index + 1)
    return probed, replace(best_layer.map(lambda split: split.map(torch.clone)), first_layer=0)


def shuffled_label_baseline(
    splits: FeatureSplits, config: ProbeConfig, *, device: torch.device
) -> ProbeResult:
    """Probe one layer anew for each of NUM_PERMUTATIONS random permutations of its labels.

    Accuracies and objective are means over the permutations; `l2`, `lr` and `neighbors` are medians,
    `grad_norm` and `iterations` maxima. The interval is the mean and 1.96 standard deviations of the accuracy
    of one permutation on new test images: the variance over permutations plus that of one accuracy.
    """
    indices = range(NUM_PERMUTATIONS)
    results = [fit_probe(shuffle_labels(splits, config.seed, i), config, device=device) for i in indices]
    return replace(results[0], layers=(_average([result.best for result in results]),), warnings=())


def shuffle_labels(splits: FeatureSplits, seed: int, permutation: int = 0) -> FeatureSplits:
    """Permute the labels of train and of validation, so that features and labels are independent."""
    random = generator(seed, "probe.shuffle", permutation)

    def shuffled(split: FeatureSplit) -> FeatureSplit:
        order = torch.randperm(len(split.labels), generator=random).to(split.labels.device)
        return replace(split, labels=split.labels[order])

    return replace(splits, train=shuffled(splits.train), validation=shuffled(splits.validation))


def _average(scores: Sequence[LayerScore]) -> LayerScore:
    accuracy = mean(score.test_accuracy for score in scores)
    resampled = mean(((score.interval[1] - score.interval[0]) / 2 / Z_95) ** 2 for score in scores)
    half_width = Z_95 * math.sqrt(variance([score.test_accuracy for score in scores]) + resampled)
    reduced: dict[str, Any] = {}
    for name, reduce in REDUCTIONS.items():
        known = [value for value in (getattr(score, name) for score in scores) if value is not None]
        reduced[name] = reduce(known) if known else None
    return LayerScore(
        layer=scores[0].layer,
        test_accuracy=accuracy,
        interval=(max(0.0, accuracy - half_width), min(1.0, accuracy + half_width)),
        **reduced,
    )
