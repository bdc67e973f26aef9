"""`isopix evaluate`: how right a fine-tuned run is about the classes of test images."""

from pathlib import Path
from typing import Any

from isopix.cli.console import Device, Json, Limit, Seed, percent, say, show_json, show_table, warn
from isopix.cli.loading import images_for
from isopix.cli.progress import counting
from isopix.core import config
from isopix.core import device as devices
from isopix.core.device import Precision
from isopix.data.dataset import digest
from isopix.finetune.metrics import Verdict
from isopix.runs.evaluate import check_masks, default_masks, load_finetuned
from isopix.runs.evaluate import evaluate_finetuned as judged
from isopix.storage.atomic import write_json
from isopix.storage.provenance import record, tag
from isopix.storage.run_folder import RunFolder


def evaluate(
    run: Path,
    *,
    data: str | None = None,
    masks: int | None = None,
    limit: Limit = None,
    precision: Precision | None = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Judge a fine-tuned run on test images: accuracy with its interval, class loss, confusions.

    With several masks a masked network reads every image under each, and the answers are put to a vote. The
    numbers, those of every class among them, are kept in the run's `evaluations` folder.

    Example: isopix evaluate runs/classes --masks 5

    Parameters
    ----------
    run
        The run folder of a fine-tuned network.
    data
        Other labelled images of the same classes: a folder, an .npz file, Parquet, or a name.
    masks
        Masks that each image is read under; 0 hides nothing; default: the run's finetune.mask_at_eval.
    precision
        Of the network's arithmetic; the run's own without it.
    """
    folder, tuned = RunFolder.open(run), load_finetuned(run, device=devices.pick(device))
    for reason in tuned.loaded.damaged:
        warn(f"passed over: {reason}")
    masks = default_masks(tuned) if masks is None else masks
    check_masks(tuned, masks)
    images = images_for(tuned.loaded, data, limit)
    with counting("test images", len(images.test) * max(1, masks)) as done:
        found = judged(
            tuned,
            images,
            masks=masks,
            seed=seed,
            precision=precision or tuned.loaded.recipe.train.precision,
            progress=done,
        )
    facts = {"data": images.name, "limit": limit, "masks": masks, "seed": seed}
    facts |= {"precision": precision or tuned.loaded.recipe.train.precision, "images_digest": digest(images)}
    values = {"kind": "evaluation", "step": tuned.loaded.step, **facts, "classes": list(tuned.classes)}
    values |= config.to_dict(found)
    path = _keep(folder, values, tag(facts))
    if json:
        show_json({**values, "record": str(path)})
    else:
        show(found, masks, images.name)
        say(f"wrote {path}")


def _keep(run: RunFolder, values: dict[str, Any], mark: str) -> Path:
    run.evaluations.mkdir(exist_ok=True)
    path = run.evaluations / f"evaluate-{values['step']:08d}-{values['data']}-{mark}.json"
    write_json(path, record(values))
    return path


def show(found: Verdict, masks: int, name: str) -> None:
    """The table of one verdict."""
    rows = [
        (
            f"modal vote of {masks} masks" if masks > 1 else "accuracy",
            percent(found.accuracy, found.low, found.high),
        )
    ]
    if masks > 1:
        rows.append(("one mask, mean", f"{found.ensemble.single:.1%}"))
        rows.append(("mean probability of all", f"{found.ensemble.mean_probability:.1%}"))
    if found.top5 is not None:
        rows.append(("among the five likeliest", f"{found.top5:.1%}"))
    rows.append(("class loss, nats", f"{found.class_nats:.4f}"))
    hidden = "" if masks == 0 else ", under one mask" if masks == 1 else f", under {masks} masks each"
    show_table(f"{found.images:,} test images of {name}{hidden}", ["", "(95 % interval)"], rows)
