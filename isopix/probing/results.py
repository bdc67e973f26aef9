"""Results of probes, as plain records for tables, reports and JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isopix.core import config
from isopix.core.measurement import EnsembleAccuracy, Measurement
from isopix.probing.config import ProbeConfig

# What validation selects for a layer, by the field of its LayerScore.
SELECTED_LABELS = {"l2": "L2 penalty", "lr": "learning rate", "neighbors": "number of neighbors"}


@dataclass(frozen=True)
class LayerScore:
    """One layer at the L2 penalty, peak learning rate or number of neighbors that validation selected.

    Accuracies are fractions of images; `interval` is the 95 % interval of `test_accuracy`
    (`accuracy_interval`).
    `objective` (nats per image, or the mean squared error of ridge), `grad_norm` and `iterations` describe
    the fit that is evaluated. Under masks `test_accuracy` is that of the majority vote. A field that the
    method does not have is None.
    """

    layer: int
    l2: float | None
    val_accuracy: float
    test_accuracy: float
    interval: tuple[float, float]
    objective: float | None
    grad_norm: float | None
    iterations: int | None
    lr: float | None = None
    neighbors: int | None = None
    ensemble: EnsembleAccuracy | None = None


@dataclass(frozen=True)
class ConcatResult:
    """The score of several layers whose features are concatenated; its `layer` is the first of them."""

    layers: tuple[int, ...]
    score: LayerScore


@dataclass(frozen=True)
class ProbeResult:
    """The scores of some layers.

    `best_index` is the index of the layer with the highest validation accuracy (the first of equals),
    `majority_accuracy` the test accuracy of always predicting the majority class of train, `num_images` the
    number of images in each split. Intervals are over `num_test_groups` groups of test images (`Split`);
    None if every image is its own. `concat` is None unless several layers were concatenated. `num_features`
    is that of one layer; None in records of versions that did not keep it.
    """

    layers: tuple[LayerScore, ...]
    best_index: int
    num_classes: int
    majority_accuracy: float
    num_images: dict[str, int]
    warnings: tuple[str, ...]
    concat: ConcatResult | None = None
    num_test_groups: int | None = None
    num_features: int | None = None

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


@dataclass(frozen=True)
class ProbeReport:
    """The probe of a network and the same probe of each baseline, by name.

    `gain` compares it with the baseline that is most accurate on test, of the untrained network, raw pixels
    and their principal components. `refit`
    is the network's best layer fitted to train and validation together, if the config asks for it; its
    `val_accuracy` is the one that it was selected by. `measurement` is the record of the network's test
    accuracies.
    """

    config: ProbeConfig
    network: ProbeResult
    baselines: dict[str, ProbeResult]
    refit: LayerScore | None = None
    measurement: Measurement | None = None
    gain: Gain | None = None

    @property
    def baseline_accuracies(self) -> dict[str, float]:
        """Test accuracy of every baseline at its best layer, and of the majority class."""
        scores = {name: result.best.test_accuracy for name, result in self.baselines.items()}
        return {**scores, "majority class": self.network.majority_accuracy}

    def to_dict(self) -> dict[str, Any]:
        """Return plain nested values, ready for JSON."""
        return config.to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ProbeReport":
        """Read the values of `to_dict`. Raises ValueError for anything else."""
        return config.from_dict(cls, values)
