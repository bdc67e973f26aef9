"""Runs and baselines: every run with its loss and probe accuracy, and what they are compared with."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from markupsafe import Markup

from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS, LayerScores, baseline_title
from isopix.reporting.metrics import (
    baseline_losses,
    finetune_accuracy,
    finetune_differences,
    held_out_loss,
    loss_unit,
    uniform_classes,
)
from isopix.reporting.probe_section import nondefault_settings, primary_probes, probe_differences
from isopix.reporting.run_record import RunRecord, SavedProbe
from isopix.reporting.section import (
    NUMBER,
    Panel,
    Section,
    Table,
    Text,
    interval,
    interval_bar,
    join_words,
    percent,
)
from isopix.reporting.section import Row as TableRow

FROZEN = "a classifier of frozen features (logistic regression by L-BFGS unless another is named)"
TUNED = "in rows \u201cfine-tuned\u201d of the fine-tuned network itself, whose features are not frozen"
INTERVALS = (
    "with its 95\u00a0% interval. A difference from the best baseline has an interval of its own, paired by "
    "image."
)


SCALE = Markup('<span class="ends"><span>0</span><span>100\u00a0%</span></span>')  # of the bars below it


class BaselineRow(NamedTuple):
    """A run or a baseline; `loss` in nats per predicted code, `accuracy` with its 95 % interval."""

    name: str
    kind: str = "baseline"  # run, baseline or shared
    description: str = ""
    loss: float | None = None
    layer: int | None = None
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None


def baseline_rows(runs: Mapping[str, RunRecord]) -> list[BaselineRow]:
    """Return each run with its own baselines, then the baselines that runs share.

    Nothing is shared between runs whose probes cannot be compared.
    """
    rows: list[BaselineRow] = []
    shared: dict[BaselineRow, None] = {}
    comparable = not probe_differences(list(primary_probes(runs).values()))
    for name, run in runs.items():
        rows += _run(name, run)
        common = [] if run.probe is None else list(_shared(run.probe))
        if comparable:
            shared |= dict.fromkeys(common)
        else:
            rows += [row._replace(kind="baseline") for row in common]
    return [*rows, *shared]


def baselines_section(runs: Mapping[str, RunRecord]) -> Section:
    """Return the table of runs and baselines."""
    columns = (
        ("run or baseline", ""),
        ("description", "minor"),
        ("loss, nats", NUMBER),
        ("bits", "n minor"),
        ("layer", "n minor"),
        ("accuracy", NUMBER),
        ("95\u00a0% interval", NUMBER),
        (SCALE, "wide"),
    )
    table = Table(columns, [_cells(row) for row in baseline_rows(runs)], "summary")
    notes = [f"{_accuracy_note(runs)}{_loss_units(runs)}{_recipes(runs)}", *_not_comparable(runs)]
    return Section("Runs and baselines", [Panel(tables=[table], notes=notes)])


def _accuracy_note(runs: Mapping[str, RunRecord]) -> str:
    """Return what is accurate, on how many test images, and how its interval is to be read."""
    probed = {name: run.probe.report.network.num_images["test"] for name, run in runs.items() if run.probe}
    tuned = {f"{name}, fine-tuned": x.images for name, run in runs.items() if (x := finetune_accuracy(run))}
    what = f"{FROZEN}; {TUNED}" if tuned else FROZEN
    counts, images = {**probed, **tuned}, ""
    if len(set(counts.values())) == 1:
        images = f", on {next(iter(counts.values())):,} test images"
    elif counts:
        images = f", on test images ({'; '.join(f'{name}: {count:,}' for name, count in counts.items())})"
    return f"Accuracy: test accuracy of {what}{images}, {INTERVALS}"


def _loss_units(runs: Mapping[str, RunRecord]) -> str:
    """Return ` Loss: nats and bits per pixel (ar), per masked pixel (bert).`; empty without losses."""
    units: dict[str, list[str]] = {}
    for name, run in runs.items():
        if run.predicts_codes:
            units.setdefault(loss_unit(run), []).append(name)
    named = [
        f"per {unit}{f' ({join_words(names)})' if len(units) > 1 else ''}" for unit, names in units.items()
    ]
    return f" Loss: nats and bits {', '.join(named)}." if named else ""


def _recipes(runs: Mapping[str, RunRecord]) -> str:
    """Return ` Recipes: igpt.digits (one), igpt.digits_bert (two).`; empty for one run."""
    named = [f"{run.recipe.name} ({name})" for name, run in runs.items() if run.recipe and run.recipe.name]
    return f" Recipes: {', '.join(named)}." if len(runs) > 1 and named else ""


def _not_comparable(runs: Mapping[str, RunRecord]) -> list[str]:
    """Return notes on losses of different images, which they name, and on accuracies after fine-tuning."""
    losses = {name: loss for name, run in runs.items() if run.predicts_codes and (loss := held_out_loss(run))}
    notes = []
    if len({loss.measurement.images_hash for loss in losses.values() if loss.measurement}) > 1:
        images = "; ".join(f"{name}: {loss.where}" for name, loss in losses.items())
        notes.append(f"The losses cannot be compared, as they are of different images: {images}.")
    if different := finetune_differences(runs):
        reason = f"as they differ in {join_words(different)}"
        notes.append(f"The accuracies after fine-tuning cannot be compared, {reason}.")
    return notes


def _run(name: str, run: RunRecord) -> Iterator[BaselineRow]:
    loss, classes = held_out_loss(run) if run.predicts_codes else None, uniform_classes(run)
    probe, baselines = run.probe, run.probe.report.baselines if run.probe else {}
    what = run.recipe.objective.label() if run.recipe and run.predicts_codes else ""
    if run.recipe and run.recipe.finetune:
        what = run.recipe.finetune.label()
    row = BaselineRow(name, "run", what + (nondefault_settings(probe) if probe else ""), loss and loss.nats)
    yield _scored(row, probe.report.network) if probe else row
    if tuned := finetune_accuracy(run):
        yield BaselineRow(
            "fine-tuned", description="class head", accuracy=tuned[0], low=tuned[1], high=tuned[2]
        )
    nats = math.log(classes) if classes and run.predicts_codes else None
    untrained = BaselineRow("untrained", description="same network", loss=nats)
    if "untrained" in baselines:
        yield _scored(untrained, baselines["untrained"])
    elif run.predicts_codes:
        yield untrained
    if found := baseline_losses(run):
        yield BaselineRow(found.best, description="learning-free", loss=found.nats[found.best])
    for baseline, record in baselines.items():
        if baseline not in ("untrained", RAW_PIXELS, PIXEL_COMPONENTS):
            yield _scored(BaselineRow(baseline, description="best layer"), record)


def _shared(probe: SavedProbe) -> Iterator[BaselineRow]:
    """Yield the baselines that depend on the images alone."""
    images, baselines = f", {probe.data}" if probe.data else "", probe.report.baselines
    for name in (RAW_PIXELS, PIXEL_COMPONENTS):
        if record := baselines.get(name):
            title = baseline_title(name, record.num_features)
            yield _scored(BaselineRow(title, "shared", f"no network{images}"), record)
    majority = probe.report.network.majority_accuracy
    yield BaselineRow("majority class", "shared", f"constant{images}", accuracy=majority)


def _scored(row: BaselineRow, record: LayerScores) -> BaselineRow:
    score, (low, high) = record.best, record.best.interval
    layer = score.layer if len(record.layers) > 1 else None
    return row._replace(layer=layer, accuracy=score.test_accuracy, low=low, high=high)


def _cells(row: BaselineRow) -> TableRow:
    nats: list[Text] = ["", ""] if row.loss is None else [f"{row.loss:.3f}", f"{row.loss / math.log(2):.3f}"]
    scored: list[Text] = ["not probed" if row.kind == "run" else "", "", ""]
    if row.accuracy is not None:
        bar = interval_bar(row.accuracy, row.low, row.high)
        scored = [percent(row.accuracy), interval(row.low, row.high), bar]
    layer = "" if row.layer is None else str(row.layer)
    return TableRow([row.name, row.description, *nats, layer, *scored], row.kind)
