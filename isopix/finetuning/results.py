"""The results of `isopix evaluate` and `predict`: metrics of a fine-tuned network, and predicted classes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from isopix.core.text import Table, count_of, percent_with_interval
from isopix.storage.result import EnsembleAccuracy, Result, Unsaved, unsaved

MAX_CONFUSION = 12  # classes, of a confusion matrix as a table


@dataclass(frozen=True)
class CalibrationBin:
    """The images whose confidence is in a bin: their number, mean confidence, and accuracy."""

    images: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class ClassificationMetrics:
    """`accuracy` is that of the majority vote over all masks (iGPT section 4.6), with its 95% `interval`.

    `cross_entropy` is in nats per image, the mean over masks; `top5_accuracy` that of the mean probability.
    `confusion_matrix` [C C] counts images by class (rows) and prediction (columns). `ensemble` has the
    accuracies of a single mask and of the mean probability.

    `calibration_error` is the expected calibration error (ECE) of the mean probability, the mean difference
    of confidence and accuracy over the images in bins of equal width (Guo et al. 2017, eq. 3), and
    `calibration` has those of the 15 bins that have images.
    """

    num_images: int
    accuracy: float
    interval: tuple[float, float]
    cross_entropy: float
    top5_accuracy: float | None
    per_class_accuracy: tuple[float | None, ...]
    confusion_matrix: tuple[tuple[int, ...], ...]
    ensemble: EnsembleAccuracy
    calibration_error: float
    calibration: tuple[CalibrationBin, ...]


class EvaluationResult(Result):
    """Test metrics of a fine-tuned network after `step` steps, under `mask_ensemble` masks per image."""

    data: str
    step: int
    mask_ensemble: int
    precision: str
    classes: tuple[str, ...]
    metrics: ClassificationMetrics

    def tables(self) -> list[Table]:
        metrics, masks = self.metrics, self.mask_ensemble
        vote = f"accuracy, majority vote of {masks} masks" if masks > 1 else "accuracy"
        rows = [(vote, percent_with_interval(metrics.accuracy, *metrics.interval))]
        if masks > 1:
            rows.append(("accuracy, mean of single masks", f"{metrics.ensemble.single_mask:.1%}"))
            rows.append(("accuracy, averaged probabilities", f"{metrics.ensemble.mean_probability:.1%}"))
        if metrics.top5_accuracy is not None:
            rows.append(("top-5 accuracy", f"{metrics.top5_accuracy:.1%}"))
        rows.append(("classification loss", f"{metrics.cross_entropy:.4f} nats"))
        rows.append(("expected calibration error", f"{metrics.calibration_error:.1%}"))
        assert self.measurement
        rows += [(name, f"{accuracy:.1%}") for name, accuracy in self.measurement.baselines.items()]
        masking = {0: "", 1: ", one random mask"}.get(masks, f", {masks} random masks")
        few = len(self.classes) <= MAX_CONFUSION
        columns = self.classes if few else ("most frequent error",)
        title = f"Accuracy by class{', and images by prediction' * few}"
        return [
            Table(f"{self.measurement.line}{masking}", ["metric", "value (95% CI)"], rows),
            Table(title, ["class", "accuracy", *columns], list(self._class_rows(few=few))),
        ]

    def _class_rows(self, *, few: bool) -> Iterator[tuple[object, ...]]:
        metrics = self.metrics
        by_class = zip(self.classes, metrics.per_class_accuracy, metrics.confusion_matrix, strict=True)
        for own, accuracy, counts in by_class:
            shown = "no images" if accuracy is None else f"{accuracy:.1%}"
            others = [each for each in zip(counts, self.classes, strict=True) if each[1] != own]
            errors, worst = max(others, default=(0, ""))
            yield own, shown, *(counts if few else (f"{worst} ({errors:,})" if errors else "",))

    def figures(self) -> Iterator[tuple[str, Any]]:
        from isopix.plots.classes import plot_classification  # noqa: PLC0415

        caption = "Images of each class by prediction, and accuracy by confidence in bins (points: images)."
        yield caption, plot_classification(self.metrics, self.classes)


class PredictionResult(Result):
    """The predicted classes of images: `counts` by class, and the `columns` of the file.

    `first` are a file, its class or why it cannot be read, and the probability, of some images.
    """

    data: str
    step: int
    num_images: int
    counts: Mapping[str, int]
    first: tuple[tuple[str, str, float | None], ...]
    columns: Unsaved[Mapping[str, list[Any]]] = unsaved()

    def tables(self) -> list[Table]:
        failed = self.num_images - sum(self.counts.values())
        unread = f", {failed:,} of which cannot be read" * bool(failed)
        caption = f"Predicted classes of {count_of(self.num_images, 'image')} of {self.data}{unread}"
        first = [(file, name, "" if share is None else f"{share:.1%}") for file, name, share in self.first]
        return [
            Table(caption, ["class", "images"], list(self.counts.items())),
            Table("First images", ["file", "class", "probability"], first),
        ]
