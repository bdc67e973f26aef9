"""Low-data evaluation: the test error of a probe that is fitted to a few images per class."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean

import torch

from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Indices, balanced_subset, count_or_fraction
from isopix.probing.config import FewLabelsConfig, ProbeConfig
from isopix.probing.features import FeatureSource, read_splits
from isopix.probing.methods import L2_GRID, L2PenalizedProbe
from isopix.probing.probe import ProbeMethod, evaluate_probe
from isopix.probing.results import FewLabels, LayerScore
from isopix.probing.splits import FeatureSplits

MIN_L2 = 1e-4


def label_subsets(
    labels: Labels, counts: Sequence[int | str], num_subsets: int, seed: int
) -> Mapping[int | str, Sequence[Indices]]:
    """Return random balanced subsets of training images, by labels per class: numbers, or as `10%`."""
    if len(set(counts)) < len(counts):
        raise ValueError(f"labels {list(counts)}; allowed: each number once")
    return {
        count: [
            balanced_subset(labels, count_or_fraction(count, "labels"), generator(seed, "subset", i))
            for i in range(num_subsets)
        ]
        for count in counts
    }


def without_small_penalties(method: ProbeMethod) -> ProbeMethod:
    """Return a method without small L2 penalties: few images are separable even with small weights."""
    if isinstance(method, L2PenalizedProbe) and method.l2_grid == L2_GRID:
        return replace(method, l2_grid=tuple(l2 for l2 in L2_GRID if l2 >= MIN_L2))
    return method


def probe_low_data(
    sources: Mapping[str, FeatureSource],
    data: ImageDataset,
    config: FewLabelsConfig,
    method: ProbeMethod,
    *,
    seed: int,
    device: torch.device,
) -> dict[str, tuple[FewLabels, ...]]:
    """Probe the features of each source on every subset; only the images of the subsets are read."""
    data.require_validation("a layer")
    assert data.train.labels is not None
    subsets = label_subsets(data.train.labels, config.labels, config.subsets, seed)
    used = torch.tensor(sorted({int(n) for each in subsets.values() for index in each for n in index}))
    read = replace(data, train=data.train.select(used))
    results = {}
    for name, source in sources.items():
        features, found = read_splits(name, source, read), list[FewLabels]()
        with track(f"fitting probes of {name}", len(subsets)) as fitted:
            for count, drawn in subsets.items():
                indices = [torch.searchsorted(used, index) for index in drawn]
                best = probe_subsets(features, indices, method, device=device)
                few = FewLabels(
                    count,
                    num_train_images=len(indices[0]),
                    num_test_images=len(features.test),
                    layer=best[0].layer,
                    errors=tuple(1 - each.test_accuracy for each in best),
                    num_selection_images=len(data.validation),
                    num_features=features.train.features.shape[2],
                )
                found.append(few)
                fitted(len(found))
        results[name] = tuple(found)
    return results


def probe_subsets(
    splits: FeatureSplits, subsets: Sequence[Indices], method: ProbeMethod, *, device: torch.device
) -> list[LayerScore]:
    """Return the score of a probe that is fitted to each subset of train (iGPT section 4.7)."""
    reduced = (replace(splits, train=splits.train.select(index)) for index in subsets)
    fitted = (evaluate_probe(each, method, ProbeConfig(), device=device) for each in reduced)
    layers = list(zip(*(each.result.layers for each in fitted), strict=True))
    return list(max(layers, key=lambda scores: mean(score.val_accuracy for score in scores)))
