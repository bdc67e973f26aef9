"""Controls: the same probe of what has learnt nothing, without which an accuracy says little."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median, median_low, variance
from typing import TypeVar

import torch

from isopix.core.bootstrap import Z_95
from isopix.core.random import generator
from isopix.probe.probe import Split, Splits, probe
from isopix.probe.refit import fold_back
from isopix.probe.results import Ensemble, Evidence, LayerScore, Protocol, Record

PERMUTATIONS = 5  # of the labels; of one alone the accuracy may lie far from chance, for images are alike

T = TypeVar("T")
Read = Callable[[], Splits]


def examine(
    network: Read, controls: Mapping[str, Read], *, protocol: Protocol, device: torch.device
) -> Evidence:
    """The probe of a network, of each named control, and of the network's best layer with shuffled labels;
    that layer with validation folded back too, if the protocol asks for it.

    Features are read when their turn comes and let go after it: one network's are held at a time. A
    control's layers are numbered from 0 as they were given. Raises what `probe` raises.
    """
    record, best = _judge_and_keep_best(network(), protocol, device)
    judged = {name: probe(read(), protocol, device=device) for name, read in controls.items()}
    judged["shuffled labels"] = chance(best, protocol, device=device)
    folded = fold_back(best, record.score, protocol, device=device) if protocol.fold_back else None
    return Evidence(protocol, record, judged, folded)


def _judge_and_keep_best(splits: Splits, protocol: Protocol, device: torch.device) -> tuple[Record, Splits]:
    record = probe(splits, protocol, device=device)
    alone = splits.layers(record.best, record.best + 1)
    return record, replace(alone.map(Split.copy), first=0)


def chance(splits: Splits, protocol: Protocol, *, device: torch.device) -> Record:
    """The control whose labels say nothing: one layer, probed anew for each of PERMUTATIONS of its labels.

    Accuracies and objective are means over the permutations, `strength`, `rate` and `neighbours` are the
    middle ones, `gradient` and `steps` the largest. The interval is the mean and 1.96 deviations of one
    permutation's accuracy on other test images: the variance over permutations plus that of the resamples.
    """
    seeds = range(PERMUTATIONS)
    records = [probe(shuffled(splits, protocol.seed, each), protocol, device=device) for each in seeds]
    return replace(records[0], layers=(_joined([record.score for record in records]),), warnings=())


def shuffled(splits: Splits, seed: int, number: int = 0) -> Splits:
    """Labels of train and validation in another order, so that nothing true is learnt or chosen by."""
    draw = generator(seed, "probe.shuffle", number)

    def permuted(split: Split) -> Split:
        order = torch.randperm(len(split.labels), generator=draw).to(split.labels.device)
        return replace(split, labels=split.labels[order])

    return replace(splits, train=permuted(splits.train), validation=permuted(splits.validation))


def _joined(scores: Sequence[LayerScore]) -> LayerScore:
    test = mean(score.test for score in scores)
    resampled = mean(((score.high - score.low) / 2 / Z_95) ** 2 for score in scores)
    half = Z_95 * math.sqrt(variance([score.test for score in scores]) + resampled)
    return LayerScore(
        layer=scores[0].layer,
        strength=_over(median, [score.strength for score in scores]),
        validation=mean(score.validation for score in scores),
        test=test,
        low=max(0.0, test - half),
        high=min(1.0, test + half),
        objective=_over(mean, [score.objective for score in scores]),
        gradient=_over(max, [score.gradient for score in scores]),
        steps=_over(max, [score.steps for score in scores]),
        rate=_over(median, [score.rate for score in scores]),
        neighbours=_over(median_low, [score.neighbours for score in scores]),
        ensemble=_over(_mean_ensemble, [score.ensemble for score in scores]),
    )


def _over(join: Callable[[list[T]], T], values: Sequence[T | None]) -> T | None:
    """The values as one; None where the method has no such value."""
    known = [value for value in values if value is not None]
    return join(known) if known else None


def _mean_ensemble(ensembles: list[Ensemble]) -> Ensemble:
    return Ensemble(
        mean(each.single for each in ensembles), mean(each.mean_probability for each in ensembles)
    )
