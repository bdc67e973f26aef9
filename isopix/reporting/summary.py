"""The summary of runs: the main metric, a row for each with its baselines, and what cannot be compared."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from markupsafe import Markup

from isopix.core.text import signed_points
from isopix.data.measurement import differences
from isopix.plots import curves, svg
from isopix.probing.config import ProbeConfig
from isopix.probing.results import PIXEL_COMPONENTS, RAW_PIXELS, LayerScores, ProbeResult, baseline_title
from isopix.reporting.results import SummaryRow
from isopix.reporting.run_record import RunRecord
from isopix.reporting.section import NUMBER, Chart, PageTable, Panel, Row, Section, Text, join_words, percent
from isopix.reporting.training import (
    baseline_losses,
    finetune_accuracy,
    held_out_loss,
    loss_unit,
    uniform_classes,
)

# They move a score within its interval, or not at all.
UNCOMPARED = {"seed", "num_resamples", "refit_on_validation", "concat"}
SCALE = Markup('<span class="ends"><span>0</span><span>100\u00a0%</span></span>')  # of the bars below it
COLUMNS = (
    ("run or baseline", ""),
    ("description", "minor"),
    ("loss, nats", NUMBER),
    ("bits", "n minor"),
    ("layer", "n minor"),
    ("accuracy", NUMBER),
    ("95\u00a0% interval", NUMBER),
    (SCALE, "wide"),
)


def headline(runs: Mapping[str, RunRecord]) -> str:
    """Return the main metric of a run, or of the best of several by their names: value, gain and interval."""
    probes = {name: run.probe for name, run in runs.items() if run.probe}
    if different := incomparable(runs):
        return f"{len(runs)} runs that cannot be compared: {different}."
    parts = []
    if probes:
        best = max(probes, key=lambda name: probes[name].accuracy)
        parts.append(
            _probed(probes[best], "" if len(runs) == 1 else f" ({best}, the highest of {len(probes)})")
        )
    tuned = {name: found for name, run in runs.items() if (found := finetune_accuracy(run))}
    for name, found in tuned.items():
        of = "" if len(runs) == 1 else f" ({name})"
        bounds = f"95\u00a0% interval {percent(found.low)} to {percent(found.high)}"
        parts.append(f"Test accuracy after fine-tuning{of}: {percent(found.accuracy)}, {bounds}.")
    if len(runs) == 1:
        [run] = runs.values()
        if loss := held_out_loss(run):
            parts.append(f"{loss.split.capitalize()} loss: {loss.nats:.2f} nats per {loss_unit(run)}.")
    return " ".join(parts) or "Not evaluated yet."


def _probed(probe: ProbeResult, of: str) -> str:
    """Return `Probe test accuracy: 54.0 % at layer 3, +22.3 points (+19.1 to +25.6) over untrained.`"""
    text = f"Probe test accuracy{of}: {percent(probe.accuracy)} at layer {probe.best.layer}"
    if probe.gain is None:
        return f"{text}."
    low, high = map(signed_points, probe.gain.interval)
    gained = f"{signed_points(probe.gain.difference)} points (95\u00a0% interval {low} to {high})"
    return f"{text}, {gained} relative to the best baseline, {probe.gain.baseline}."


def incomparable(runs: Mapping[str, RunRecord]) -> str:
    """Return why probes or fine-tuned accuracies of runs cannot be compared; empty if they can."""
    different = probe_differences([run.probe for run in runs.values() if run.probe])
    tuned = [found.measurement for run in runs.values() if (found := finetune_accuracy(run))]
    reasons = [f"probes differ in {join_words(different)}"] if different else []
    reasons += [f"fine-tuned accuracies in {join_words(others)}"] if (others := differences(tuned)) else []
    return "; ".join(reasons)


def probe_differences(probes: Sequence[ProbeResult]) -> list[str]:
    """Return the settings in which probes differ and which their scores depend on."""
    names = [each.name for each in fields(ProbeConfig) if each.name not in UNCOMPARED]
    found = [name for name in names if _differ([getattr(each.config, name) for each in probes])]
    methods = ["settings of the method"] if _differ([dict(each.method) for each in probes]) else []
    return [*differences([each.measurement for each in probes]), *found, *methods]


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True, default=repr) for value in values}) > 1


def summary_rows(runs: Mapping[str, RunRecord]) -> list[SummaryRow]:
    """Return each run with its own baselines, then the baselines that runs share.

    Nothing is shared between runs whose probes cannot be compared.
    """
    rows: list[SummaryRow] = []
    shared: dict[SummaryRow, None] = {}
    comparable = not probe_differences([run.probe for run in runs.values() if run.probe])
    for name, run in runs.items():
        rows += _rows(name, run)
        common = [] if run.probe is None else list(_shared(run.probe))
        if comparable:
            shared |= dict.fromkeys(common)
        else:
            rows += [replace(row, kind="baseline") for row in common]
    return [*rows, *shared]


def _rows(name: str, run: RunRecord) -> Iterator[SummaryRow]:
    loss, classes = held_out_loss(run) if run.predicts_codes else None, uniform_classes(run)
    what = run.recipe.objective.label() if run.recipe and run.predicts_codes else ""
    if run.recipe and run.recipe.finetune:
        what = run.recipe.finetune.label()
    row = SummaryRow(name, "run", what, loss and loss.nats)
    yield _scored(row, run.probe.network) if run.probe else row
    if tuned := finetune_accuracy(run):
        fine_tuned = SummaryRow("fine-tuned", description="class head", accuracy=tuned.accuracy)
        yield replace(fine_tuned, low=tuned.low, high=tuned.high)
    baselines = run.probe.baselines if run.probe else {}
    nats = math.log(classes) if classes and run.predicts_codes else None
    untrained = SummaryRow("untrained", description="same network", loss=nats)
    if "untrained" in baselines:
        yield _scored(untrained, baselines["untrained"])
    elif run.predicts_codes:
        yield untrained
    if losses := baseline_losses(run):
        lowest = min(losses, key=lambda each: losses[each])
        yield SummaryRow(lowest, description="learning-free", loss=losses[lowest])
    for baseline, found in baselines.items():
        if baseline not in ("untrained", RAW_PIXELS, PIXEL_COMPONENTS):
            yield _scored(SummaryRow(baseline, description="best layer"), found)


def _shared(probe: ProbeResult) -> Iterator[SummaryRow]:
    """Yield the baselines that depend on the images alone."""
    for name in (RAW_PIXELS, PIXEL_COMPONENTS):
        if found := probe.baselines.get(name):
            title = baseline_title(name, found.num_features)
            yield _scored(SummaryRow(title, "shared", f"no network, {probe.data}"), found)
    majority = probe.network.majority_accuracy
    yield SummaryRow("majority class", "shared", f"constant, {probe.data}", accuracy=majority)


def _scored(row: SummaryRow, scores: LayerScores) -> SummaryRow:
    best = scores.best
    layer = best.layer if len(scores.layers) > 1 else None
    return replace(row, layer=layer, accuracy=best.test_accuracy, low=best.interval[0], high=best.interval[1])


def summary_section(runs: Mapping[str, RunRecord], name: str) -> Section:
    """Return the table of runs and baselines, and the probes of several runs in one figure."""
    table = PageTable(COLUMNS, [_cells(row) for row in summary_rows(runs)], "summary")
    units = dict.fromkeys(loss_unit(run) for run in runs.values() if run.predicts_codes)
    notes = [
        "Accuracy: test accuracy of a probe of frozen features, or of the fine-tuned network, with its"
        f" 95\u00a0% interval. Loss: per {' or '.join(units) or 'predicted code'}."
    ]
    losses = [loss for run in runs.values() if run.predicts_codes and (loss := held_out_loss(run))]
    if len({each.images_hash for each in losses if each.images_hash}) > 1:
        notes.append("The losses cannot be compared, as they are of different images.")
    if different := incomparable(runs):
        notes.append(f"The accuracies cannot be compared: {different}.")
    panels = [Panel(tables=[table], notes=notes)]
    probes = {run: record.probe for run, record in runs.items() if record.probe}
    if len(probes) > 1 and not different:
        caption = "Test accuracy by layer. Bands: 95\u00a0% intervals; rings: best layers on validation."
        figure = curves.plot_probe_accuracy(probes)
        numbers = {run: probe.record() for run, probe in probes.items()}
        panels.append(Panel([Chart(svg.svg_markup(figure, numbers, name=name, alt=caption), caption)]))
    return Section("Runs and baselines", panels)


def _cells(row: SummaryRow) -> Row:
    nats: list[Text] = ["", ""] if row.loss is None else [f"{row.loss:.3f}", f"{row.loss / math.log(2):.3f}"]
    scored: list[Text] = ["not probed" if row.kind == "run" else "", "", ""]
    if row.accuracy is not None:
        bounds = "" if row.low is None or row.high is None else f"{100 * row.low:.1f}–{100 * row.high:.1f}"
        quiet = Markup('<span class="quiet">{}</span>').format(bounds)
        scored = [percent(row.accuracy), quiet, _bar(row.accuracy, row.low, row.high)]
    layer = "" if row.layer is None else str(row.layer)
    return Row([row.name, row.description, *nats, layer, *scored], row.kind)


def _bar(value: float, low: float | None, high: float | None) -> Markup:
    """Return a bar from 0 to 100 % with a mark at `value` and its interval."""
    bounded = low is not None and high is not None
    whisker = f'<path class="whisker" d="M{100 * (low or 0)} 4H{100 * (high or 0)}"/>' if bounded else ""
    return Markup(
        '<svg class="range" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="ground" d="M0 4H100M0 1V7M50 1V7M100 1V7"/>{whisker}'
        f'<path class="point" d="M{100 * value} 0V8"/></svg>'
    )
