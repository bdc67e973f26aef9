"""`isopix low-data`: few-label test error of a linear probe and of fine-tuning."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherLabeled,
    Plugins,
    load_plugins,
    say,
    show_json,
    show_table,
)
from isopix.cli.loading import evaluation_data, evaluation_images, leakage_warning, load_network
from isopix.cli.progress import progress_bar
from isopix.core import device as devices
from isopix.core.device import Precision
from isopix.data.dataset import ImageDataset
from isopix.papers.igpt import LOW_DATA, PublishedLowData
from isopix.probe.config import L2_GRID, LowDataProtocol, ProbeConfig
from isopix.probe.low_data import LowDataResult
from isopix.runs.low_data import finetune_job, finetune_low_data, probe_low_data
from isopix.runs.training import RunObserver
from isopix.storage.atomic import write_json
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

Results = dict[str, list[LowDataResult]]
LARGER_L2 = tuple(l2 for l2 in L2_GRID if l2 >= 1e-4)  # few images are separable even with small weights
LABELS = (4, 25, 400)  # labeled images per class (iGPT section 4.5)

Labels = Annotated[
    list[int],
    Parameter(consume_multiple=True, negative="", help="Labeled images per class, one or more numbers."),
]


def low_data(
    run: Path,
    *settings: str,
    labels: Labels | None = None,
    subsets: int = 5,
    data: OtherLabeled = None,
    limit: Limit = None,
    finetune_steps: int = 0,
    precision: Precision | None = None,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure test error with few labels: mean and standard deviation over random balanced subsets.

    Linear probe of the layer chosen on the validation split, with an untrained network and raw pixels as
    baselines; with --finetune-steps, fine-tuning too. Results go to the run's `low-data` folder.

    Example: isopix low-data runs/photos --labels 4 25 400 --subsets 5

    Parameters
    ----------
    run
        Run folder.
    settings
        Fine-tuning settings to override, as name=value.
    subsets
        Number of random subsets of each size.
    finetune_steps
        Also fine-tune the run on every subset, for at most this many steps.
    precision
        Precision of the forward pass. Default: that of the run.
    """
    load_plugins(plugin)
    if settings and not finetune_steps:
        raise ValueError(f"'{settings[0]}' is a fine-tuning setting; it needs --finetune-steps")
    protocol = LowDataProtocol(tuple(labels or LABELS), subsets)
    folder, loaded = RunFolder.open(run), load_network(run, device)
    images = evaluation_images(loaded, data, limit)
    given: dict[str, Any] = {
        "images": evaluation_data(loaded, data, limit),
        "num_test_images": len(images.test),
    }
    words, out = (f"steps={finetune_steps}", *settings), folder.path / "low-data"
    job = (
        finetune_job(run, words, **given, out=out, device=devices.select_device(device))
        if finetune_steps
        else None
    )
    with progress_bar("features", 1) as done:
        results = probe_low_data(
            loaded,
            images,
            protocol,
            precision=precision or loaded.recipe.train.precision,
            config=ProbeConfig(l2_grid=LARGER_L2, l2_extra=()),
            progress=done,
        )
    if job:
        results["fine-tuned"] = finetune_low_data(
            job, protocol, RunObserver() if json else RunObserver(_print_record)
        )
    options: dict[str, Any] = {
        "data": images.name,
        "limit": limit,
        "seed": loaded.recipe.train.seed,
        "subsets": subsets,
    }
    if job:
        options |= {"finetune_steps": finetune_steps, "settings": settings}
    values = {"kind": "low_data", "step": loaded.step, **options, "results": _summary(results)}
    path = _save(folder, values, settings_hash({**options, "labels": protocol.labels_per_class}))
    if json:
        show_json({**values, "record": str(path)})
    else:
        _print_errors(results, images)
        for text in leakage_warning(loaded.recipe.data, data):
            say(f"note: {text}")
        say(f"wrote {path}")


def _summary(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Return all results with their mean and standard deviation."""
    return {
        method: [{**asdict(each), "mean": each.mean, "std": each.std} for each in found]
        for method, found in results.items()
    }


def _save(run: RunFolder, values: dict[str, Any], suffix: str) -> Path:
    folder = run.path / "low-data"
    folder.mkdir(exist_ok=True)
    path = folder / f"low-data-{values['step']:08d}-{values['data']}-{suffix}.json"
    write_json(path, with_provenance(values))
    return path


def _print_errors(results: Results, images: ImageDataset) -> None:
    """Print the errors and, for CIFAR-10, those that the paper published."""
    counts = [each.num_train_images for each in next(iter(results.values()))]
    rows = [
        (
            _title(method, found, len(images.test)),
            *(f"{each.mean:.1%} ± {each.std:.1%}" for each in found),
        )
        for method, found in results.items()
    ]
    title = (
        f"Test error on {images.name} ({len(images.test):,} images): mean ± std over "
        f"{len(next(iter(results.values()))[0].errors)} random subsets; layer and L2 penalty chosen on "
        f"{len(images.validation):,} validation images"
    )
    show_table(title, ["labeled images", *(f"{count:,}" for count in counts)], rows)
    known = sorted({count for each in LOW_DATA for count in each.errors} & set(counts))
    if images.name == "cifar10" and known:
        published = [(each.method, *(_published(each, count) for count in known)) for each in LOW_DATA]
        show_table(
            "Published test error on CIFAR-10 (iGPT table 4)",
            ["labeled images", *map("{:,}".format, known)],
            published,
        )


def _title(method: str, found: list[LowDataResult], tested: int) -> str:
    if found[0].num_test_images != tested:
        method += f", {found[0].num_test_images:,} test images"
    layers = {str(each.layer): None for each in found if each.layer is not None}
    return f"{method}, layer {' / '.join(layers)}" if layers and method != "raw pixels" else method


def _published(row: PublishedLowData, count: int) -> str:
    if count not in row.errors:
        return ""
    return "{:.1f}% ± {:.1f}%".format(*row.errors[count])


def _print_record(record: Record) -> None:
    """Print the notes and the test error of a fine-tuning run."""
    if record["kind"] == "note":
        say(record["text"])
    elif record.get("split") == "test":
        say(f"fine-tuned for {record['step']} steps: test error {1 - record['accuracy']:.1%}")
