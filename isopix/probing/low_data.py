"""Low-data evaluation: the test error of a probe that is fitted to a few images per class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import NamedTuple

import torch

from isopix.core import choices
from isopix.core.progress import track
from isopix.core.random import generator
from isopix.core.types import Labels
from isopix.data.dataset import ImageDataset
from isopix.data.splits import Indices, balanced_subset, count_or_fraction
from isopix.probing.config import ProbeConfig
from isopix.probing.cross_validation import probe_cross_validated
from isopix.probing.feature_extraction import FeatureSource, read_splits
from isopix.probing.feature_splits import FeatureSplits
from isopix.probing.probe import fit_probe
from isopix.probing.results import LayerScore

Selection = choices.Selection


class LowDataProtocol(NamedTuple):
    """Labels per class (numbers, or percentages as in `10%`), how many random subsets are drawn for each of
    them, and which images select layer and L2 penalty: those of the validation split, or those of the subset
    itself, by cross-validation.
    """

    labels_per_class: tuple[int | str, ...]
    num_subsets: int
    select: Selection = "validation"

    def subsets(self, labels: Labels, seed: int) -> Mapping[int | str, Sequence[Indices]]:
        """Return balanced subsets of these training labels, by labels per class: the same images that
        `data.labels` and `data.subset` select for fine-tuning.

        Raises ValueError if a number is not allowed or a class has too few images.
        """
        counts = self.labels_per_class
        if self.num_subsets < 1 or not counts:
            raise ValueError(
                f"labels {list(counts)} and subsets {self.num_subsets}; allowed: at least 1 of each"
            )
        if len(set(counts)) < len(counts):
            raise ValueError(f"labels {list(counts)}; allowed: each number once")
        return {
            count: [
                balanced_subset(labels, count_or_fraction(count, "labels"), generator(seed, "subset", i))
                for i in range(self.num_subsets)
            ]
            for count in counts
        }


@dataclass(frozen=True)
class LowDataResult:
    """Test errors, as fractions of images, one for each random subset of `labels_per_class` training images
    per class, a number or a percentage.

    `layers` are those that were selected: one for all subsets by validation, on average over the subsets, one
    for each by cross-validation within it; empty for fine-tuning. `num_selection_images` is the number of
    labeled images that select and are not in the subset.
    """

    labels_per_class: int | str
    num_train_images: int  # in one subset
    num_test_images: int
    layers: tuple[int, ...]
    errors: tuple[float, ...]
    num_selection_images: int = 0
    num_features: int | None = None  # of a layer; None for fine-tuning

    def __post_init__(self) -> None:
        if not self.errors:
            raise ValueError("errors is empty; allowed: one or more")

    @property
    def mean(self) -> float:
        return mean(self.errors)

    @property
    def std(self) -> float:
        """Standard deviation over subsets (n - 1); 0 for a single subset."""
        return stdev(self.errors) if len(self.errors) > 1 else 0.0


def probe_low_data(
    sources: Mapping[str, FeatureSource],
    data: ImageDataset,
    protocol: LowDataProtocol,
    *,
    seed: int,
    config: ProbeConfig,
    device: torch.device,
) -> dict[str, list[LowDataResult]]:
    """Probe the features of each source on every subset, which the seed determines.

    Only the images of the subsets are read. Raises ValueError where `data` has no labels, no validation
    images, or too few images of a class.
    """
    data.require_labels("low-data")
    if protocol.select == "validation":
        data.require_validation("a layer")
    assert data.train.labels is not None
    subsets = protocol.subsets(data.train.labels, seed)
    used = torch.tensor(sorted({int(n) for each in subsets.values() for index in each for n in index}))
    read = replace(data, train=data.train.select(used))
    if protocol.select != "validation":
        read = replace(read, validation=read.train)  # not used
    results: dict[str, list[LowDataResult]] = {}

    for name, source in sources.items():
        features = read_splits(source, read)
        results[name] = []
        with track(f"fitting probes of {name}", len(subsets)) as fitted:
            for count, drawn in subsets.items():
                found = probe_subsets(
                    features,
                    [torch.searchsorted(used, index) for index in drawn],
                    count,
                    select=protocol.select,
                    seed=seed,
                    config=config,
                    device=device,
                )
                results[name].append(found)
                fitted(len(results[name]))
    return results


def probe_subsets(
    splits: FeatureSplits,
    subsets: Sequence[Indices],
    labels_per_class: int | str,
    *,
    select: Selection = "validation",
    seed: int = 0,
    config: ProbeConfig,
    device: torch.device,
) -> LowDataResult:
    """Return the error of probes that are fitted to each subset of the training images (iGPT section 4.7).

    L2 penalty and layer are selected on validation, the layer once for all subsets, or by cross-validation
    within each subset. Raises what `probe` raises.
    """
    chosen = [splits.train.select(index) for index in subsets]
    if select == "cross-validation":
        best = probe_cross_validated(splits, chosen, config, seed=seed, device=device)
        return _result(labels_per_class, splits, subsets, best, 0)
    results = [fit_probe(replace(splits, train=train), config, device=device) for train in chosen]
    layers = list(zip(*(result.layers for result in results), strict=True))
    best = list(max(layers, key=lambda scores: mean(score.val_accuracy for score in scores)))
    return _result(labels_per_class, splits, subsets, best, len(splits.validation))


def _result(
    labels_per_class: int | str,
    splits: FeatureSplits,
    subsets: Sequence[Indices],
    best: list[LayerScore],
    num_selection_images: int,
) -> LowDataResult:
    errors = tuple(1 - score.test_accuracy for score in best)
    counts, layers = (len(subsets[0]), len(splits.test)), tuple(dict.fromkeys(each.layer for each in best))
    width = splits.train.features.shape[2]
    return LowDataResult(labels_per_class, *counts, layers, errors, num_selection_images, width)
