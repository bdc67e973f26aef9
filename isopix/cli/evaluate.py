"""`isopix evaluate`: classification metrics of a fine-tuned run on the test set."""

from pathlib import Path
from typing import Any

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherLabeled,
    Plugins,
    Seed,
    load_plugins,
    percent,
    say,
    show_json,
    show_table,
    warn,
)
from isopix.cli.loading import evaluation_images
from isopix.cli.progress import progress_bar
from isopix.core import config
from isopix.core import device as devices
from isopix.core.device import Precision
from isopix.data.dataset import content_hash
from isopix.finetune.metrics import ClassificationMetrics
from isopix.runs.evaluate import check_masks, default_masks, evaluate_finetuned, load_finetuned
from isopix.storage.atomic import write_json
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder


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

    With a mask ensemble, a masked network classifies every image under several random masks and the
    predictions are combined by majority vote. Results go to the run's `evaluations` folder.

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
    folder, tuned = RunFolder.open(run), load_finetuned(run, device=devices.select_device(device))
    for reason in tuned.loaded.damaged:
        warn(f"skipped: {reason}")
    masks = default_masks(tuned) if mask_ensemble is None else mask_ensemble
    check_masks(tuned, masks)
    images = evaluation_images(tuned.loaded, data, limit)
    with progress_bar("evaluation", len(images.test) * max(1, masks)) as done:
        metrics = evaluate_finetuned(
            tuned,
            images,
            masks=masks,
            seed=seed,
            precision=precision or tuned.loaded.recipe.train.precision,
            progress=done,
        )
    settings = {"data": images.name, "limit": limit, "masks": masks, "seed": seed}
    settings |= {
        "precision": precision or tuned.loaded.recipe.train.precision,
        "images_digest": content_hash(images),
    }
    values = {"kind": "evaluation", "step": tuned.loaded.step, **settings, "classes": list(tuned.classes)}
    values |= config.to_dict(metrics)
    path = _save(folder, values, settings_hash(settings))
    if json:
        show_json({**values, "record": str(path)})
    else:
        _print_metrics(metrics, masks, images.name)
        say(f"wrote {path}")


def _save(run: RunFolder, values: dict[str, Any], suffix: str) -> Path:
    run.evaluations.mkdir(exist_ok=True)
    path = run.evaluations / f"evaluate-{values['step']:08d}-{values['data']}-{suffix}.json"
    write_json(path, with_provenance(values))
    return path


def _print_metrics(metrics: ClassificationMetrics, masks: int, name: str) -> None:
    accuracy = percent(metrics.accuracy, *metrics.interval)
    rows = [(f"accuracy, majority vote of {masks} masks" if masks > 1 else "accuracy", accuracy)]
    if masks > 1:
        rows.append(("accuracy, mean of single masks", f"{metrics.ensemble.single_mask:.1%}"))
        rows.append(("accuracy, averaged probabilities", f"{metrics.ensemble.mean_probability:.1%}"))
    if metrics.top5_accuracy is not None:
        rows.append(("top-5 accuracy", f"{metrics.top5_accuracy:.1%}"))
    rows.append(("classification loss", f"{metrics.cross_entropy:.4f} nats"))
    masking = "" if masks == 0 else ", one random mask" if masks == 1 else f", {masks} random masks"
    show_table(f"{metrics.num_images:,} test images of {name}{masking}", ["metric", "value (95 % CI)"], rows)
