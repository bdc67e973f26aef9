"""`isopix low-data`: few-label test error of a linear probe and of fine-tuning."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import few_labels
from isopix.api.results import LowDataOutput
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OtherLabeled,
    Plugins,
    load_plugins,
    note,
    say,
    show_json,
    show_table,
)
from isopix.cli.probe import Pooling
from isopix.core.choices import Precision, Selection
from isopix.core.text import mean_and_std, mean_over_subsets
from isopix.probing.baselines import PIXEL_COMPONENTS, RAW_PIXELS, baseline_title
from isopix.probing.low_data import LowDataResult
from isopix.recipes.published import LOW_DATA, PublishedLowData

Labels = Annotated[
    list[int | str],
    Parameter(
        consume_multiple=True,
        negative="",
        help="Labeled images per class, one or more numbers, or percentages as in 10%. "
        "Default: 4, 25 and 400, as far as the classes have them.",
    ),
]
COUNTS = "labels per class (total)"

MethodName = Annotated[
    str,
    Parameter(
        help="Classifier: lbfgs, sgd or adam (logistic regression), ridge (regression), or one of a plugin."
    ),
]


def low_data(
    run: Path,
    *settings: str,
    labels: Labels | None = None,
    subsets: int = 5,
    method: MethodName = "lbfgs",
    pool: Pooling = None,
    select: Selection = "validation",
    data: OtherLabeled = None,
    limit: Limit = None,
    finetune_steps: int = 0,
    precision: Precision | None = None,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure test error with few labels: mean and standard deviation over random balanced subsets.

    Linear probe of the layer chosen on the validation split, or by cross-validation within the labeled
    images, with an untrained network, raw pixels and their principal components as baselines; with
    --finetune-steps, fine-tuning too.
    Results go to the run's `low-data` folder.

    Example: isopix low-data runs/photos --labels 4 25 400 --subsets 5

    Parameters
    ----------
    run
        Run folder.
    settings
        Fine-tuning settings to override, as name=value.
    subsets
        Number of random subsets of each size.
    select
        Images to choose layer, L2 penalty and step on; cross-validation: the labeled ones, and fixed steps.
    finetune_steps
        Also fine-tune the run on every subset, for at most this many steps.
    precision
        Precision of the forward pass. Default: that of the run.
    """
    load_plugins(plugin)
    found = few_labels.low_data(
        run,
        labels=labels,
        subsets=subsets,
        method=method,
        pool=pool,
        select=select,
        data=data,
        limit=limit,
        finetune_steps=finetune_steps,
        overrides=settings,
        precision=precision,
        device=device,
    )
    if json:
        show_json({**found.record, "record": str(found.path)})
    else:
        _print_errors(found)
        for text in found.warnings:
            note(text)
        say(f"wrote {found.path}")


def _print_errors(found: LowDataOutput) -> None:
    """Print the errors and, for CIFAR-10, those that the paper published."""
    results, num_images = found.results, found.num_images
    first = next(iter(results.values()))
    totals = [each.num_train_images for each in first]
    columns = [f"{each.labels_per_class} ({each.num_train_images:,})" for each in first]
    rows = [
        (
            _title(method, each, num_images["test"]),
            *(mean_and_std(result.errors) for result in each),
        )
        for method, each in results.items()
    ]
    chosen = (
        f"on {num_images['validation']:,} labeled validation images"
        if found.select == "validation"
        else "by cross-validation within the labeled images"
    )
    title = (
        f"Test error on {found.data} ({num_images['test']:,} images): "
        f"{mean_over_subsets(len(first[0].errors))}; layer and L2 penalty chosen "
        f"{chosen}; pool {found.record['pool']}"
    )
    show_table(title, [COUNTS, *columns], rows)
    known = sorted({count for each in LOW_DATA for count in each.errors} & set(totals))
    if found.data == "cifar10" and known:
        published = [(each.method, *(_published(each, count) for count in known)) for each in LOW_DATA]
        show_table(
            "Published test error on CIFAR-10 (iGPT table 4)",
            [COUNTS, *(columns[totals.index(count)] for count in known)],
            published,
        )


def _title(method: str, found: list[LowDataResult], tested: int) -> str:
    pixels, method = method in (RAW_PIXELS, PIXEL_COMPONENTS), baseline_title(method, found[0].num_features)
    if found[0].num_test_images != tested:
        method += f", {found[0].num_test_images:,} test images"
    if not found[0].layers:
        count = found[0].num_selection_images
        method += (
            f", step chosen on {count:,} labeled validation images" if count else ", fixed number of steps"
        )
    layers = sorted({layer for each in found for layer in each.layers})
    if not layers or pixels:
        return method
    first, last = layers[0], layers[-1]
    return f"{method}, layer {first}" if first == last else f"{method}, layers {first} to {last}"


def _published(row: PublishedLowData, count: int) -> str:
    if count not in row.errors:
        return ""
    return "{:.1f}% ± {:.1f}%".format(*row.errors[count])
