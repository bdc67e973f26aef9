"""The results of `isopix evaluate` and `predict`: metrics of a fine-tuned network, and predicted classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isopix.core.text import Table, count_of, percent_with_interval
from isopix.storage.result import EnsembleAccuracy, Result, Unsaved, unsaved

SHOWN = 10  # images of a table


@dataclass(frozen=True)
class ClassificationMetrics:
    """`accuracy` is that of the majority vote over all masks (iGPT section 4.6), with its 95 % `interval`.

    `cross_entropy` is in nats per image, the mean over masks; `top5_accuracy` that of the mean probability.
    `confusion_matrix` [C C] counts images by class (rows) and prediction (columns). `ensemble` has the
    accuracies of a single mask and of the mean probability.
    """

    num_images: int
    accuracy: float
    interval: tuple[float, float]
    cross_entropy: float
    top5_accuracy: float | None
    per_class_accuracy: tuple[float | None, ...]
    confusion_matrix: tuple[tuple[int, ...], ...]
    ensemble: EnsembleAccuracy


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
        assert self.measurement
        rows += [(name, f"{accuracy:.1%}") for name, accuracy in self.measurement.baselines.items()]
        masking = {0: "", 1: ", one random mask"}.get(masks, f", {masks} random masks")
        by_class = zip(self.classes, metrics.per_class_accuracy, strict=True)
        class_rows = [(name, "no images" if each is None else f"{each:.1%}") for name, each in by_class]
        return [
            Table(f"{self.measurement.line}{masking}", ["metric", "value (95 % CI)"], rows),
            Table("Accuracy by class", ["class", "accuracy"], class_rows),
        ]


class PredictionResult(Result):
    """The predicted classes of images: `counts` by class, and the `columns` of the file."""

    data: str
    step: int
    num_images: int
    counts: Mapping[str, int]
    columns: Unsaved[Mapping[str, list[Any]]] = unsaved()

    def tables(self) -> list[Table]:
        failed = self.num_images - sum(self.counts.values())
        unread = f", {failed:,} of which cannot be read" * bool(failed)
        caption = f"Predicted classes of {count_of(self.num_images, 'image')} of {self.data}{unread}"
        tables = [Table(caption, ["class", "images"], list(self.counts.items()))]
        if self.columns is not None:
            shown = [self.columns[name][:SHOWN] for name in ("file", "class", "probability", "problem")]
            rows = [
                (file, name or problem, f"{share:.1%}" if name else "")
                for file, name, share, problem in zip(*shown, strict=True)
            ]
            tables.append(Table("First images", ["file", "class", "probability"], rows))
        return tables
