"""Selection of layer and L2 penalty by cross-validation within the labeled images of each subset."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.data.splits import Indices
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import FeatureSplit, FeatureSplits
from isopix.probing.probe import fit_probe
from isopix.probing.results import LayerScore

NUM_FOLDS = 5  # or as many as a class has images

Accuracies = Float[Tensor, "P F"]  # by L2 penalty, in decreasing order, and by layer


class Selected(NamedTuple):
    """The position of the best layer of a subset among those probed, and its L2 penalty."""

    position: int
    l2: float


def probe_cross_validated(
    splits: FeatureSplits,
    subsets: Sequence[FeatureSplit],
    config: ProbeConfig,
    *,
    seed: int,
    device: torch.device,
) -> list[LayerScore]:
    """Return the score of a probe of each subset at the layer and L2 penalty that cross-validation within the
    subset selects; validation images and other subsets are not used.

    Raises ValueError for a method without L2 penalties, and for a class with one image.
    """
    scores = []
    for train in subsets:
        folds = fold_indices(train.labels, seed)
        accuracies = cross_validate(replace(splits, train=train), config, folds, device=device)
        index, l2 = select(accuracies, config)
        layer = replace(splits, train=train, validation=train).select_layers(index, index + 1)
        scores.append(fit_probe(layer, _at(config, l2), device=device).best)
    return scores


def cross_validate(
    splits: FeatureSplits, config: ProbeConfig, folds: Sequence[Indices], *, device: torch.device
) -> Accuracies:
    """Return the accuracy of each L2 penalty and layer on the training images, each predicted by a probe that
    is fitted to the other folds.
    """
    rows = []
    for l2 in _grid(config):
        correct = torch.zeros(len(splits.train.features), dtype=torch.float64)
        for fold in folds:
            others = torch.cat([each for each in folds if each is not fold])
            held = splits.train.select(fold)
            parts = replace(splits, train=splits.train.select(others), validation=held, test=held)
            scores = fit_probe(parts, replace(_at(config, l2), num_resamples=1), device=device).layers
            correct += len(fold) * torch.tensor([each.val_accuracy for each in scores], dtype=torch.float64)
        rows.append(correct / len(splits.train))
    return torch.stack(rows)


def select(accuracies: Accuracies, config: ProbeConfig) -> Selected:
    """Return the best layer and its best L2 penalty; the first layer and the largest penalty of equals."""
    index = int(accuracies.amax(0).argmax())
    return Selected(index, _grid(config)[int(accuracies[:, index].argmax())])


def fold_indices(labels: Labels, seed: int) -> list[Indices]:
    """Divide images into at most `NUM_FOLDS` folds at random, each class as evenly as possible.

    Raises ValueError for a class with one image.
    """
    members = [torch.nonzero(labels == each)[:, 0] for each in sorted(set(labels.tolist()))]
    count = min(NUM_FOLDS, *map(len, members))
    if count < 2:
        raise ValueError("cross-validation needs two labeled images of each class or more; a class has one")
    draw = generator(seed, "folds")
    mixed = torch.cat([each[torch.randperm(len(each), generator=draw)] for each in members])
    return [mixed[start::count] for start in range(count)]


def _grid(config: ProbeConfig) -> tuple[float, ...]:
    name, _ = config.method.grid(config.l2_grid)
    if name != "l2":
        raise ValueError(f"cross-validation selects an L2 penalty, and method {config.method.kind} has none")
    return tuple(sorted(config.l2_grid, reverse=True))


def _at(config: ProbeConfig, l2: float) -> ProbeConfig:
    return replace(config, l2_grid=(l2,), l2_extra=())
