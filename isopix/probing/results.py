"""Scores of probes, as plain records for tables, reports and JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field

RAW_PIXELS, PIXEL_COMPONENTS = "raw pixels", "raw pixels, PCA"  # baselines without a network


@dataclass(frozen=True)
class LayerScore:
    """One layer at the setting that validation selected. Accuracies are fractions of images; under masks
    `test_accuracy` is that of the majority vote. `interval` is its 95 % interval (`accuracy_interval`).

    `selected` is what was chosen on validation images, as {"L2 penalty": 1e-3}; `fit` describes the fit that
    is evaluated, as {"objective": 0.41, "iterations": 37}. Both are in the words of the method.
    """

    layer: int
    val_accuracy: float
    test_accuracy: float
    interval: tuple[float, float]
    selected: Mapping[str, float] = field(default_factory=dict)
    fit: Mapping[str, float] = field(default_factory=dict)
    ensemble: EnsembleAccuracy | None = None


@dataclass(frozen=True)
class ConcatScore:
    """The score of several layers whose features are concatenated; its `layer` is the first of them."""

    layers: tuple[int, ...]
    score: LayerScore


@dataclass(frozen=True)
class LayerScores:
    """The scores of some layers of one source of features.

    `best_index` is the index of the layer with the highest validation accuracy (the first of equals),
    `majority_accuracy` the test accuracy of always predicting the majority class of train, `num_images` the
    number of images in each split. Intervals are over `num_test_groups` groups of test images (`Split`);
    None if every image is its own. `num_features` is that of one layer.
    """

    layers: tuple[LayerScore, ...]
    best_index: int
    num_classes: int
    majority_accuracy: float
    num_images: Mapping[str, int]
    num_features: int
    concat: ConcatScore | None = None
    num_test_groups: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def best(self) -> LayerScore:
        """The score to report: that of the layer with the highest validation accuracy."""
        return self.layers[self.best_index]


@dataclass(frozen=True)
class Gain:
    """The test accuracy of a network minus that of the best of its baselines, on the same test images.

    `interval` is the 95 % interval of the paired bootstrap: each resample holds the same images for both.
    """

    baseline: str
    difference: float
    interval: tuple[float, float]


def baseline_title(name: str, num_features: int | None) -> str:
    """Return the name of a baseline, of raw pixels with their number: `raw pixels, PCA (64 features)`."""
    if name not in (RAW_PIXELS, PIXEL_COMPONENTS) or num_features is None:
        return name
    return f"{name} ({num_features:,} features)"
