"""`isopix evaluate`: classification metrics of a fine-tuned run on the test set."""

from pathlib import Path

from isopix.api import evaluation
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherLabeled,
    Plugins,
    Seed,
    load_plugins,
    note,
    say,
    show_json,
    show_table,
)
from isopix.core.choices import Precision
from isopix.core.text import percent_with_interval
from isopix.data.measurement import Measurement
from isopix.finetuning.metrics import ClassificationMetrics


def evaluate(
    run: Path,
    *,
    data: OtherLabeled = None,
    mask_ensemble: int | None = None,
    limit: Limit = None,
    precision: Precision | None = None,
    seed: Seed = 0,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Evaluate a fine-tuned run on the test set: accuracy, classification loss, confusion matrix.

    With --mask-ensemble N, a masked model classifies every image under N random masks, and the prediction is
    the majority vote (test-time augmentation). Results go to the run's `evaluations` folder.

    Example: isopix evaluate runs/classes --mask-ensemble 5

    Parameters
    ----------
    run
        Run folder of a fine-tuned network.
    mask_ensemble
        Number of random masks per test image; 0 uses unmasked images. Default: as in fine-tuning.
    precision
        Precision of the forward pass. Default: that of the run.
    """
    load_plugins(plugin)
    found = evaluation.evaluate(
        run,
        data=data,
        mask_ensemble=mask_ensemble,
        limit=limit,
        precision=precision,
        seed=seed,
        device=device,
    )
    if json:
        show_json({**found.record, "record": str(found.path)})
    else:
        _print_metrics(found.metrics, found.mask_ensemble, found.measurement)
        say(f"wrote {found.path}")


def _print_metrics(metrics: ClassificationMetrics, masks: int, measurement: Measurement) -> None:
    accuracy = percent_with_interval(metrics.accuracy, *metrics.interval)
    rows = [(f"accuracy, majority vote of {masks} masks" if masks > 1 else "accuracy", accuracy)]
    if masks > 1:
        rows.append(("accuracy, mean of single masks", f"{metrics.ensemble.single_mask:.1%}"))
        rows.append(("accuracy, averaged probabilities", f"{metrics.ensemble.mean_probability:.1%}"))
    if metrics.top5_accuracy is not None:
        rows.append(("top-5 accuracy", f"{metrics.top5_accuracy:.1%}"))
    rows.append(("classification loss", f"{metrics.cross_entropy:.4f} nats"))
    rows += [(name, f"{accuracy:.1%}") for name, accuracy in measurement.baselines.items()]
    masking = "" if masks == 0 else ", one random mask" if masks == 1 else f", {masks} random masks"
    show_table(f"{measurement.line}{masking}", ["metric", "value (95 % CI)"], rows)
    for text in measurement.warnings:
        note(text)
