"""Linear probe by layer; how probes were made, and which of their settings keep them from being compared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields

from isopix.data import measurement
from isopix.plots import curves, svg
from isopix.probing.config import ProbeConfig
from isopix.probing.results import SELECTED_LABELS, ConcatResult, LayerScore, ProbeReport, ProbeResult
from isopix.reporting.run_record import DEFAULTS, RunRecord, SavedProbe
from isopix.reporting.section import (
    NUMBER,
    Chart,
    Panel,
    Row,
    Section,
    Table,
    Text,
    interval,
    missing,
    percent,
)

# They move a score within its interval, or not at all.
UNCOMPARED = {"seed", "num_resamples", "refit_on_validation", "concat"}
FEATURES: Mapping[str, Mapping[object, str]] = {
    "pool": {
        "mean": "mean-pooled",
        "max": "max-pooled",
        "last": "last position",
        "first": "class token",
        "grid2": "means of 2 × 2 cells",
        "grid4": "means of 4 × 4 cells",
        "flatten": "all positions",
    },
    "features": {"normed": "after the next block's norm", "residual": "residual stream"},
    "start_token": {True: "", False: "without start token"},
}
COLUMNS = (("layer", ""), *((name, NUMBER) for name in ("test", "95 %", "validation", "untrained")))


def primary_probes(runs: Mapping[str, RunRecord]) -> dict[str, SavedProbe]:
    """Return the primary probe of each run that has one."""
    return {name: run.probe for name, run in runs.items() if run.probe is not None}


def probe_differences(probes: Sequence[SavedProbe]) -> list[str]:
    """Return the settings in which probes differ and which their scores depend on."""
    configs = [probe.report.config for probe in probes]
    measured = [probe.report.measurement for probe in probes]
    found = measurement.differences(measured)
    if None in measured:
        images = [[probe.data, probe.limit, probe.report.network.num_images] for probe in probes]
        found = ["images"] if _differ(images) else []
    names = [each.name for each in fields(ProbeConfig) if each.name not in UNCOMPARED]
    return found + [name for name in names if _differ([getattr(each, name) for each in configs])]


def nondefault_settings(probe: SavedProbe) -> str:
    """Return the settings in which a probe differs from iGPT's, in parentheses; empty without any."""
    config = probe.report.config
    chosen = {name: getattr(config, name) for name in FEATURES}
    found = [FEATURES[name][value] for name, value in chosen.items() if value != getattr(DEFAULTS, name)]
    found += [config.method.label()] if config.method != DEFAULTS.method else []
    found += [masks(config)] if config.mask_ensemble else []
    found += [] if config.layer is None else [f"layer {config.layer} only"]
    return f" ({', '.join(found)})" if found else ""


def probe_settings(config: ProbeConfig) -> str:
    """Return the features and the classifier."""
    read = [words for name, values in FEATURES.items() if (words := values[getattr(config, name)])]
    return (
        f"{', '.join([*read, *([masks(config)] if config.mask_ensemble else [])])}; {config.method.label()}"
    )


def masks(config: ProbeConfig) -> str:
    """Return how many masks each test image was read under."""
    count = config.mask_ensemble
    return "one mask per image" if count == 1 else f"majority vote of {count} masks"


def accuracy_chart(probes: Mapping[str, SavedProbe], name: str, caption: str) -> Chart:
    """Return test accuracy by layer."""
    found = [
        f"{run}: best layer {score.layer}, {percent(score.test_accuracy)}"
        for run, score in ((run, probe.report.network.best) for run, probe in probes.items())
    ]
    drawn = curves.plot_probe_accuracy({run: probe.report for run, probe in probes.items()})
    return Chart(
        svg.svg_markup(
            drawn,
            {run: probe.report.to_dict() for run, probe in probes.items()},
            name=name,
            alt=f"Test accuracy by layer. {'; '.join(found)}.",
        ),
        caption,
    )


def probe_section(run: RunRecord, name: str, path: str) -> Section:
    """Return a chart and a table for each probe of a run."""
    panels = [
        Panel(
            [accuracy_chart({"trained": probe}, f"{name}-{number}", _caption(run, probe))],
            [Table(COLUMNS, _rows(probe.report))],
        )
        for number, probe in enumerate(run.probes)
    ]
    command = missing("Not probed yet; with labeled images:", f"isopix probe {path}")
    return Section("Linear probe by layer", panels or [Panel(notes=[command])], "pair")


def _caption(run: RunRecord, probe: SavedProbe) -> str:
    network, measured = probe.report.network, probe.report.measurement
    counts = ", ".join(f"{count:,} {split}" for split, count in network.num_images.items())
    limit = f", at most {probe.limit:,} of each split" if probe.limit else ""
    images = f"{probe.data or 'Images of the run'}: {network.num_classes} classes; {counts} images{limit}"
    step = f" Step {probe.step:,}." if probe.step else ""
    primary = " This probe is in the headline." if len(run.probes) > 1 and probe is run.probe else ""
    parts = [
        f"{measured.line if measured else images}."
        f" Features: {probe_settings(probe.report.config)}.{primary} Band: 95\u00a0% interval"
        f"{_groups(network)}; ring: best layer on validation images.{step}",
        *([_refit(probe.report.refit, network.num_images)] if probe.report.refit else []),
        *(f"Note: {warning}." for warning in network.warnings),
    ]
    return " ".join(parts)


def _groups(network: ProbeResult) -> str:
    """Return ` over 450 groups of test images`, if test images are of groups."""
    count = network.num_test_groups
    return "" if count is None else f" over {count:,} groups of test images"


def _refit(score: LayerScore, images: Mapping[str, int]) -> str:
    selected = {label: getattr(score, name) for name, label in SELECTED_LABELS.items()}
    values = "".join(f", {label} {value:g}" for label, value in selected.items() if value is not None)
    low, high = score.interval
    return (
        f"Refit on train + validation (layer {score.layer}{values},"
        f" {images['train'] + images['validation']:,} images): {percent(score.test_accuracy)}"
        f" ({100 * low:.1f} to {percent(high)})."
    )


def _rows(report: ProbeReport) -> list[Row]:
    network, untrained = report.network, report.baselines.get("untrained")
    others = dict(enumerate(untrained.layers)) if untrained else {}
    rows = []
    for index, score in enumerate(network.layers):
        best = index == network.best_index
        rows.append(_row(f"{score.layer}{' best' * best}", score, others.get(index), css="run" * best))
    if network.concat:
        other = untrained.concat.score if untrained and untrained.concat else None
        rows.append(_row(concatenated(network.concat), network.concat.score, other))
    if report.refit:
        refit = _row(f"{report.refit.layer} refit on train + validation", report.refit, None)
        rows.append(Row([*refit.cells[:3], "", ""]))  # validation images were trained on
    return rows


def concatenated(concat: ConcatResult) -> str:
    """Return `layers 1–5 concatenated`."""
    return f"layers {concat.layers[0]}–{concat.layers[-1]} concatenated"


def _row(name: str, score: LayerScore, untrained: LayerScore | None, css: str = "") -> Row:
    cells: list[Text] = [
        name,
        percent(score.test_accuracy),
        interval(*score.interval),
        percent(score.val_accuracy),
    ]
    return Row([*cells, percent(untrained.test_accuracy) if untrained else ""], css)


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True, default=repr) for value in values}) > 1
