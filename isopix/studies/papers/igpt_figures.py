"""Figures 2, 3 and 4 of Image GPT from the records of trials."""

from collections.abc import Sequence

from pydantic import TypeAdapter

from isopix.plots.curves import (
    Bar,
    plot_accuracy_bars,
    plot_accuracy_vs_loss,
    plot_probe_accuracy,
    probe_points,
)
from isopix.plots.style import Figure
from isopix.probing.results import ProbeResult
from isopix.recipes.published import FINETUNED, FINETUNED_VOTE, PROBE, PROBE_VOTE, Value
from isopix.studies.papers.protocol import Cell, MeasuredRow, Records


def draw_layers(rows: Sequence[MeasuredRow], records: Records) -> tuple[Figure, str] | None:
    """Draw probe accuracy by layer, a curve for each dataset (figure 2)."""
    probes = {
        row.data: TypeAdapter(ProbeResult).validate_python(records[cell.trial.name])
        for row in rows
        for cell in row.cells.values()
        if isinstance(cell, Cell) and cell.trial.name in records
    }
    if not probes:
        return None
    caption = "Test accuracy by layer; bands: 95 % intervals; rings: best layers on validation images."
    return plot_probe_accuracy(probes), caption


def draw_loss_and_accuracy(rows: Sequence[MeasuredRow], records: Records) -> tuple[Figure, str] | None:
    """Draw probe accuracy against validation loss, a line for each model (figure 3)."""
    done = {row.method: records[row.network.name] for row in rows if row.network.name in records}
    lines = {method: probe_points(record["log"]) for method, record in done.items()}
    lines = {method: points for method, points in lines.items() if any(point.step for point in points)}
    if not lines:
        return None
    caption = "Points: checkpoints of one model, with 95 % intervals; ring: last step; dashed: untrained."
    return plot_accuracy_vs_loss(lines, unit="pixel"), caption


def draw_objectives(rows: Sequence[MeasuredRow], records: Records) -> tuple[Figure, str] | None:
    """Draw probe and fine-tuned accuracy for both objectives (figure 4)."""
    bars: dict[str, list[Bar]] = {}
    for row in rows:
        values = row.values(records)
        for single, vote in ((PROBE, PROBE_VOTE), (FINETUNED, FINETUNED_VOTE)):
            number, voted = _fraction(values[single]), _fraction(values.get(vote))
            if number is not None:
                bars.setdefault(f"{row.method}, {row.data}", []).append(Bar(single, number, voted))
    if not bars:
        return None
    return plot_accuracy_bars(bars), "Test accuracy; outlined: majority vote of five masks per image."


def _fraction(value: Value | str | None) -> float | None:
    return value.number / 100 if isinstance(value, Value) else None
