"""Training curves: the loss by step, and the probe accuracy during training against the loss."""

import json
import math
from collections.abc import Mapping

from markupsafe import Markup

from isopix.objectives.file_baselines import PNGFile, WebPFile
from isopix.plots import curves, svg
from isopix.plots.curves import ProbePoint, loss_accuracy_correlation, probe_points
from isopix.reporting.metrics import (
    BaselineLosses,
    baseline_losses,
    held_out_loss,
    loss_key,
    loss_unit,
    uniform_classes,
)
from isopix.reporting.run_record import RunRecord
from isopix.reporting.section import NUMBER, Chart, Panel, Section, Table, join_words, missing, percent
from isopix.reporting.section import Row as TableRow

FILES = {PNGFile.name, WebPFile.name}


def loss_section(run: RunRecord, name: str, path: str) -> Section:
    """Return the loss by step and the newest held-out loss."""
    loss, classes, unit = held_out_loss(run), uniform_classes(run), loss_unit(run)
    notes = []
    if loss:
        notes.append(
            f"{loss.split.capitalize()} loss: {loss.nats:.3f} nats per {unit} ({loss.bits:.3f} bits),"
            f" {loss.where}."
        )
    logged = any(loss_key(run) in each for each in run.log)
    if not loss and not logged:
        verb, text = (
            ("verify", "No loss yet; to compute it:")
            if run.imported_from
            else ("resume", "No loss yet; to resume:")
        )
        return Section("Loss", [Panel(notes=[missing(text, f"isopix {verb} {path}")])])
    if classes:
        dotted = " (dotted line)" if logged else ""
        notes.append(
            f"Uniform prediction of {classes:,} values: ln {classes:,} = {math.log(classes):.3f} nats per"
            f" {unit}{dotted}."
        )
    alt = " ".join(["Loss by step.", *notes[:1]])
    caption = f"Nats (left) and bits (right) per {unit} by step, from log.jsonl; lower is better."
    charts = [Chart(_loss_curve(run, name, alt), caption)] if logged else []
    baselines = baseline_losses(run)
    if baselines:
        lines = " (broken lines: the best and the unigram)" if logged else ""
        notes.append(
            f"Learning-free baselines{lines}: {baselines.split} loss on {baselines.images:,} images, in nats"
            f" and bits per {unit}."
        )
        if FILES & baselines.nats.keys():
            notes.append("PNG and WebP: files of many images side by side, in the colors of the codec.")
    tables = [_baseline_table(baselines)] if baselines else []
    return Section("Loss", [Panel(charts, notes=notes, tables=tables)], "pair")


def _baseline_table(baselines: BaselineLosses) -> Table:
    rows = [
        TableRow([name, f"{nats:.3f}", f"{nats / math.log(2):.3f}"]) for name, nats in baselines.nats.items()
    ]
    return Table((("baseline", ""), ("nats", NUMBER), ("bits", NUMBER)), rows)


def _loss_curve(run: RunRecord, name: str, alt: str) -> Markup:
    baselines = baseline_losses(run)
    lines = {each: baselines.nats[each] for each in _drawn(baselines)} if baselines else {}
    figure = curves.plot_loss(
        run.log, uniform_classes(run), unit=loss_unit(run), loss_key=loss_key(run), baselines=lines
    )
    numbers = [each for each in run.log if loss_key(run) in each]
    return svg.svg_markup(figure, numbers, name=name, alt=alt)


def _drawn(baselines: BaselineLosses) -> dict[str, None]:
    """The names of the baselines that are drawn: the best, and the unigram if there is one."""
    return dict.fromkeys([baselines.best, *({"unigram"} & baselines.nats.keys())])


def probe_curve(runs: Mapping[str, RunRecord], name: str) -> Chart | None:
    """Return probe accuracy during training against the validation loss, a line per run.

    None where fewer than two of several runs were probed at two steps or more, or where their images differ.
    """
    probed = {run: probe_points(record.log) for run, record in runs.items()}
    lines = {run: line for run, line in probed.items() if len(_trained(line)) > 1}
    if len(lines) < min(2, len(runs)) or len({_images(runs[run]) for run in lines}) > 1:
        return None
    unit = " or ".join(dict.fromkeys(loss_unit(runs[run]) for run in lines))
    alt = f"Probe accuracy against validation loss. {'; '.join(_alt(*each) for each in lines.items())}."
    drawn = curves.plot_accuracy_vs_loss(lines, unit=unit)
    numbers = {run: [point._asdict() for point in line] for run, line in lines.items()}
    return Chart(
        svg.svg_markup(drawn, numbers, name=name, alt=alt), _caption([runs[run] for run in lines], lines)
    )


def _trained(line: list[ProbePoint]) -> list[ProbePoint]:
    return [point for point in line if point.step > 0]


def _images(run: RunRecord) -> str:
    """Return the settings that decide which images the accuracies are of, but for the seed."""
    data = run.settings.get("data", {})
    return json.dumps([data.get(key) for key in ("source", "holdout", "limit")])


def _alt(name: str, line: list[ProbePoint]) -> str:
    found = loss_accuracy_correlation(line)
    rho = f", {curves.format_correlation(found)}" if found else ""
    return f"{name}: {percent(line[-1].accuracy)} at {line[-1].loss:.3f} nats{rho}"


def _caption(runs: list[RunRecord], lines: Mapping[str, list[ProbePoint]]) -> str:
    steps = [point.step for line in lines.values() for point in _trained(line)]
    images = sorted({each["probe_images"] for run in runs for each in run.log if "probe_images" in each})
    rho = "; ρ: Spearman’s rank correlation" if any(map(loss_accuracy_correlation, lines.values())) else ""
    return (
        f"Linear-probe accuracy of the best layer at steps {min(steps):,} to {max(steps):,}, on"
        f" {join_words([f'{count:,}' for count in images])} validation images other than those that chose the"
        f" layer. Bars: 95\u00a0% intervals{rho}; ring: last step; dashed: untrained network."
    )
