"""Low-data evaluation: the test error of a probe that is fitted to a few images per class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

import torch

from isopix.data.splits import Indices
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import FeatureSplit, FeatureSplits
from isopix.probing.probe import fit_probe


@dataclass(frozen=True)
class LowDataResult:
    """Test errors, as fractions of images, one for each random subset of `labels_per_class` training images
    per class.

    `layer` has the highest validation accuracy on average over the subsets; None for fine-tuning.
    """

    labels_per_class: int
    num_train_images: int  # in one subset
    num_test_images: int
    layer: int | None
    errors: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean(self.errors)

    @property
    def std(self) -> float:
        """Standard deviation over subsets (n - 1); 0 for a single subset."""
        return stdev(self.errors) if len(self.errors) > 1 else 0.0


def probe_subsets(
    splits: FeatureSplits,
    subsets: Sequence[Indices],
    labels_per_class: int,
    *,
    config: ProbeConfig,
    device: torch.device,
) -> LowDataResult:
    """Return the error of probes that are fitted to each subset of the training images (iGPT section 4.5).

    L2 penalty and layer are selected on validation, the layer once for all subsets. Raises what `probe`
    raises.
    """
    results = [fit_probe(_select(splits, index), config, device=device) for index in subsets]
    layers = list(zip(*(result.layers for result in results), strict=True))
    best = max(layers, key=lambda scores: mean(score.val_accuracy for score in scores))
    errors = tuple(1 - score.test_accuracy for score in best)
    return LowDataResult(labels_per_class, len(subsets[0]), len(splits.test), best[0].layer, errors)


def _select(splits: FeatureSplits, index: Indices) -> FeatureSplits:
    train = splits.train
    return replace(splits, train=FeatureSplit(train.features[:, index], train.labels[index]))
