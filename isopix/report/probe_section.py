"""Linear probe by layer; how probes were made, and which of their settings keep them from being compared."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields

from isopix.plots import curves, svg
from isopix.probe.results import Evidence, LayerScore, Protocol, Record
from isopix.report.load_run import ALL_LAYERS, DECIDING, DEFAULTS, RunRecord, SavedProbe
from isopix.report.section import NUMBER, Chart, Panel, Row, Section, Table, Text, interval, missing, percent

UNCOMPARED = {
    "seed",
    "resamples",
    "fold_back",
    "layers",
}  # they move a score within its interval, or not at all
FEATURES = tuple(name for name in DECIDING if name not in ("method", "masks"))
CHOSEN = ("strength", "rate", "neighbours")  # hyperparameters that are chosen on validation images
COLUMNS = (("layer", ""), *((name, NUMBER) for name in ("test", "95 %", "validation", "untrained")))


def primary_probes(runs: Mapping[str, RunRecord]) -> dict[str, SavedProbe]:
    """Return the primary probe of each run that has one."""
    return {name: run.probe for name, run in runs.items() if run.probe is not None}


def differences(probes: Sequence[SavedProbe]) -> list[str]:
    """Return the settings in which probes differ and which their scores depend on."""
    protocols = [probe.report.protocol for probe in probes]
    found = ["images"] if _differ([_images(probe, probes) for probe in probes]) else []
    if _differ([protocol.layers in ALL_LAYERS or protocol.layers for protocol in protocols]):
        found.append("layers")
    names = [each.name for each in fields(Protocol) if each.name not in UNCOMPARED]
    return found + [name for name in names if _differ([getattr(each, name) for each in protocols])]


def nondefault_settings(probe: SavedProbe) -> str:
    """Return the settings in which a probe differs from iGPT's, in parentheses; empty without any."""
    protocol = probe.report.protocol
    found = [f"{name} {getattr(protocol, name)}" for name in FEATURES if _changed(protocol, name)]
    found += [protocol.method.label()] if _changed(protocol, "method") else []
    found += [masks(protocol)] if protocol.masks else []
    found += [] if protocol.layers in ALL_LAYERS else [f"layer {protocol.layers} only"]
    return f" ({', '.join(found)})" if found else ""


def settings(protocol: Protocol) -> str:
    """Return the features and the classifier."""
    read = [f"{name} {getattr(protocol, name)}" for name in FEATURES]
    return f"{', '.join([*read, *([masks(protocol)] if protocol.masks else [])])}; {protocol.method.label()}"


def masks(protocol: Protocol) -> str:
    """Return how many masks each test image was read under."""
    return "one mask per image" if protocol.masks == 1 else f"majority vote of {protocol.masks} masks"


def accuracy_chart(probes: Mapping[str, SavedProbe], name: str, caption: str) -> Chart:
    """Return test accuracy by layer."""
    found = [
        f"{run}: best layer {score.layer}, {percent(score.test)}"
        for run, score in ((run, probe.report.network.score) for run, probe in probes.items())
    ]
    drawn = curves.accuracy_by_layer({run: probe.values for run, probe in probes.items()})
    return Chart(svg.markup(drawn, name, f"Test accuracy by layer. {'; '.join(found)}."), caption)


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
    network = probe.report.network
    counts = ", ".join(f"{count:,} {split}" for split, count in network.images.items())
    limit = f", the first {probe.limit:,} of each split" if probe.limit else ""
    step = f" Step {probe.step:,}." if probe.step else ""
    primary = " This probe is in the headline." if len(run.probes) > 1 and probe is run.probe else ""
    parts = [
        f"{probe.data or 'Images of the run'}: {network.classes} classes; {counts} images{limit}."
        f" Features: {settings(probe.report.protocol)}.{primary} Band: 95\u00a0% interval; ring: layer chosen"
        f" on validation images.{step}",
        *([_refit(probe.report)] if probe.report.folded else []),
        *(f"Note: {warning}." for warning in network.warnings),
    ]
    return " ".join(parts)


def _refit(report: Evidence) -> str:
    score, images = report.folded, report.network.images
    assert score is not None
    chosen = "".join(
        f", {name} {getattr(score, name):g}" for name in CHOSEN if getattr(score, name) is not None
    )
    return (
        f"Refit on train + validation (layer {score.layer}{chosen},"
        f" {images['train'] + images['validation']:,} images): {percent(score.test)}"
        f" ({100 * score.low:.1f} to {percent(score.high)})."
    )


def _rows(report: Evidence) -> list[Row]:
    network, untrained = report.network, report.controls.get("untrained")
    others = dict(enumerate(untrained.layers)) if untrained else {}
    rows = []
    for index, score in enumerate(network.layers):
        best = index == network.best
        rows.append(_row(f"{score.layer}{' best' * best}", score, others.get(index), css="run" * best))
    if network.joined:
        other = untrained.joined.score if untrained and untrained.joined else None
        rows.append(_row(concatenated(network), network.joined.score, other))
    if report.folded:
        refit = _row(f"{report.folded.layer} refit on train + validation", report.folded, None)
        rows.append(Row([*refit.cells[:3], "", ""]))  # validation images were trained on
    return rows


def concatenated(record: Record) -> str:
    """Return `layers 1–5 concatenated`."""
    assert record.joined is not None
    layers = record.joined.layers
    return f"layers {layers[0]}–{layers[-1]} concatenated"


def _row(name: str, score: LayerScore, untrained: LayerScore | None, css: str = "") -> Row:
    cells: list[Text] = [
        name,
        percent(score.test),
        interval(score.low, score.high),
        percent(score.validation),
    ]
    return Row([*cells, percent(untrained.test) if untrained else ""], css)


def _changed(protocol: Protocol, name: str) -> bool:
    return bool(getattr(protocol, name) != getattr(DEFAULTS, name))


def _images(probe: SavedProbe, probes: Sequence[SavedProbe]) -> object:
    """Return what tells images apart: their hash if all probes have one, or else name, limit and number."""
    if all(each.images_digest for each in probes):
        return probe.images_digest
    return [probe.data, probe.limit, probe.report.network.images]


def _differ(values: Sequence[object]) -> bool:
    return len({json.dumps(value, sort_keys=True, default=repr) for value in values}) > 1
