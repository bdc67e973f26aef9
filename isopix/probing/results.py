"""Results of probes: the scores of layers, test errors with few labels, and their tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any

from pydantic import computed_field

from isopix.core.choices import Number, Pool, Precision
from isopix.core.text import Table, count_of, mean_and_std, percent_with_interval, signed_points
from isopix.probing.config import ProbeConfig
from isopix.storage.result import EnsembleAccuracy, Measurement, Result

RAW_PIXELS, PIXEL_COMPONENTS = "raw pixels", "raw pixels, PCA"  # baselines without a network


@dataclass(frozen=True)
class LayerScore:
    """The accuracies of a layer, fractions of images, at the setting that validation `selected`.

    `interval` is the 95% interval of the test accuracy. `selected` is as {"L2 penalty": 1e-3}, and `fit` as
    {"objective": 0.41, "iterations": 37}; `ensemble` is known for a vote over masks.
    """

    layer: int
    val_accuracy: float
    test_accuracy: float
    interval: tuple[float, float]
    selected: Mapping[str, Number] = field(default_factory=dict)
    fit: Mapping[str, Number] = field(default_factory=dict)
    ensemble: EnsembleAccuracy | None = None


@dataclass(frozen=True)
class ConcatScore:
    """The score of several layers whose features are concatenated; its `layer` is the first of them."""

    layers: tuple[int, ...]
    score: LayerScore


@dataclass(frozen=True)
class LayerScores:
    """The scores of some layers of one source of features, with `num_images` by split.

    `best_index` is that of the highest validation accuracy (the first of equals). `majority_accuracy` is of
    always predicting the majority class of train. `num_features` is that of one layer. `num_test_groups` is
    None if every test image is its own group.
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
        return self.layers[self.best_index]


@dataclass(frozen=True)
class Gain:
    """Test accuracy minus the highest of any baseline, with the 95% interval of pairs."""

    baseline: str
    difference: float
    interval: tuple[float, float]


class ProbeResult(Result):
    """The probe of a network after `step` steps on a dataset, and the same probe of each baseline, by name.

    `gain` is over the most accurate of the untrained network, raw pixels and their principal components.
    `refit` is the best layer fitted to train and validation together; its `val_accuracy` is from before.
    """

    data: str
    step: int
    precision: Precision
    config: ProbeConfig
    method: Mapping[str, Any]
    label: str
    network: LayerScores
    baselines: Mapping[str, LayerScores]
    gain: Gain | None = None
    refit: LayerScore | None = None

    @property
    def best(self) -> LayerScore:
        return self.network.best

    @property
    def accuracy(self) -> float:
        return self.best.test_accuracy

    @property
    def baseline_accuracies(self) -> dict[str, float]:
        """Test accuracy of every baseline at its best layer, and of the majority class."""
        scores = {name: found.best.test_accuracy for name, found in self.baselines.items()}
        return {**scores, "majority class": self.network.majority_accuracy}

    @property
    def title(self) -> str:
        return "Linear probe by layer"

    @property
    def method_title(self) -> str:
        """Method and features: `Ridge regression, pool mean, majority vote of 5 masks`."""
        config, masks = self.config, self.config.mask_ensemble
        parts = [self.label[0].upper() + self.label[1:], f"pool {config.pool}"]
        parts += ["residual stream"] * (config.features == "residual")
        parts += ["without start token"] * (not config.start_token)
        vote = "one mask per image" if masks == 1 else f"majority vote of {masks} masks"
        return ", ".join([*parts, *([vote] if masks else [])])

    def tables(self) -> list[Table]:
        measured = f", {self.measurement.line}" if self.measurement else ""
        masked = ("single mask", "averaged") if self.config.mask_ensemble else ()
        accuracy = "test accuracy (95% CI)"
        columns = ("layer", accuracy, *masked, "validation", "untrained", *self.best.selected)
        return [
            Table(f"{self.method_title}{measured}; * best on validation", columns, list(self._layer_rows())),
            Table("Baselines, best layer on validation", ("baseline", accuracy), list(self._baseline_rows())),
        ]

    def figures(self) -> Iterator[tuple[str, Any]]:
        from isopix.plots.curves import plot_probe_accuracy  # noqa: PLC0415

        groups = self.network.num_test_groups
        over = "" if groups is None else f" over {groups:,} groups of test images"
        caption = f"Test accuracy by layer. Band: 95% interval{over}; ring: best layer on validation images."
        yield caption, plot_probe_accuracy({"trained": self})

    def _layer_rows(self) -> Iterator[tuple[str, ...]]:
        network, untrained = self.network, self.baselines.get("untrained")
        before = {each.layer: each.test_accuracy for each in untrained.layers} if untrained else {}
        for own in network.layers:
            yield _row(f"{own.layer}{' *' * (own is self.best)}", own, before.get(own.layer))
        if concat := network.concat:
            other = untrained.concat if untrained else None
            name = f"{concat.layers[0]}-{concat.layers[-1]} concatenated"
            yield _row(name, concat.score, other.score.test_accuracy if other else None)
        if self.refit:
            yield _row(f"{self.refit.layer}, refit on train + val", self.refit, None, validated=False)

    def _baseline_rows(self) -> Iterator[tuple[str, str]]:
        for name, found in self.baselines.items():
            yield baseline_title(name, found.num_features), _accuracy(found.best)
        yield "majority class", f"{self.network.majority_accuracy:.1%}"
        if self.gain:
            low, high = map(signed_points, self.gain.interval)
            gained = f"{signed_points(self.gain.difference)} points ({low} to {high})"
            yield f"difference from the best baseline ({self.gain.baseline})", gained


def _row(name: str, own: LayerScore, untrained: float | None, *, validated: bool = True) -> tuple[str, ...]:
    masked = (own.ensemble.single_mask, own.ensemble.mean_probability) if own.ensemble else ()
    return (
        name,
        _accuracy(own),
        *(f"{each:.1%}" for each in masked),
        f"{own.val_accuracy:.1%}" if validated else "",
        "" if untrained is None else f"{untrained:.1%}",
        *(f"{value:g}" for value in own.selected.values()),
    )


def _accuracy(score: LayerScore) -> str:
    return percent_with_interval(score.test_accuracy, *score.interval)


def baseline_title(name: str, num_features: int | None) -> str:
    """Return the name of a baseline, of raw pixels with their number: `raw pixels, PCA (64 features)`."""
    if name not in (RAW_PIXELS, PIXEL_COMPONENTS) or num_features is None:
        return name
    return f"{name} ({num_features:,} features)"


@dataclass(frozen=True)
class FewLabels:
    """Test errors, one for each random subset of `labels_per_class` images (a number or percentage).

    `layer` is the one that validation selected, None for fine-tuning. `num_selection_images` counts labeled
    images that select and are not in the subset.
    """

    labels_per_class: int | str
    num_train_images: int  # in one subset
    num_test_images: int
    layer: int | None
    errors: tuple[float, ...]
    num_selection_images: int = 0
    num_features: int | None = None  # of a layer; None for fine-tuning

    @computed_field  # type: ignore[prop-decorator]
    @property
    def mean(self) -> float:
        return mean(self.errors)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def std(self) -> float:
        """Standard deviation over subsets (n - 1); 0 for a single subset."""
        return stdev(self.errors) if len(self.errors) > 1 else 0.0


class LowDataResult(Result):
    """Test errors with few labels, by method, for each number of labels.

    `published` are errors in per cent, as (mean, standard deviation), by name and number of training images.
    """

    data: str
    step: int
    precision: Precision
    pool: str
    method: Mapping[str, Any]
    results: Mapping[str, tuple[FewLabels, ...]]
    published: Mapping[str, Mapping[int, tuple[float, float]]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "Few labels"

    def tables(self) -> list[Table]:
        first = next(iter(self.results.values()))
        names = [f"{each.labels_per_class} ({each.num_train_images:,})" for each in first]
        rows = [
            (_few_labels_title(method, found), *(mean_and_std(each.errors) for each in found))
            for method, found in self.results.items()
        ]
        for name, known in self.published.items():
            errors = [known.get(each.num_train_images) for each in first]
            if any(errors):
                texts = ("{:.1f}% ± {:.1f}%".format(*each) if each else "" for each in errors)
                rows.append((f"{name}, published", *texts))
        count = len(first[0].errors)
        averaged = f"mean ± std over {count} random subsets" if count > 1 else "1 random subset"
        chosen = self.measurement.selection if self.measurement else ""
        caption = (
            f"Test error on {self.data} ({count_of(first[0].num_test_images, 'image')}): "
            f"{averaged}; {chosen}; pool {self.pool}"
        )
        return [Table(caption, ("labels per class (total)", *names), rows)]


def _few_labels_title(method: str, found: Sequence[FewLabels]) -> str:
    title, first = baseline_title(method, found[0].num_features), found[0]
    layers = [each.layer for each in found if each.layer is not None]
    if not layers:
        count = first.num_selection_images
        chosen = f"step chosen on {count:,} labeled validation images" if count else "fixed number of steps"
        return f"{title}, {first.num_test_images:,} test images, {chosen}"
    if method in (RAW_PIXELS, PIXEL_COMPONENTS):
        return title
    low, high = min(layers), max(layers)
    return f"{title}, layer {low}" if low == high else f"{title}, layers {low} to {high}"


class FeaturesResult(Result):
    """Features of images in a file: of each image `shape` numbers, [D], or [h w D] at all positions."""

    data: str
    step: int
    layer: int
    pool: Pool
    precision: Precision
    num_images: int
    shape: tuple[int, ...]
    measurements: tuple[Measurement, ...]

    def tables(self) -> list[Table]:
        caption = f"Features of {count_of(self.num_images, 'image')} of {self.data}"
        shape = " × ".join(map(str, self.shape))
        return [Table(caption, ("layer", "pool", "per image"), [(self.layer, self.pool, shape)])]
