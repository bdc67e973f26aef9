"""The contrasts of all claims as a forest plot, with a panel per unit."""

from collections.abc import Mapping, Sequence
from typing import Any

from isopix.plots.comparisons import ForestRow, Mark
from isopix.plots.study_marks import display_name

Values = Mapping[str, Any]

AXES = {  # label of the axis of a unit
    "nats": "Difference of loss (nats per masked sub-pixel)",
    "points": "Difference of accuracy (percentage points)",
    "nats per doubling": "Loss reduction (nats per doubling of depth)",
    "points per doubling": "Accuracy gain (points per doubling of depth)",
    "points per nat": "Slope of accuracy (points per nat)",
    "": "Correlation, or difference of correlations (no unit)",
    "% of range": "Difference of error (% of the range of levels)",
    "%": "Difference of fractions (percentage points)",
}
SHORTER = {  # what the label of the axis says
    "accuracy of ": "",
    "distance preservation": "dist. preservation",
    "transformer-1": "transf.",
    "negative rank correlation of loss and accuracy": "−rank corr. of loss, accuracy",
    ", between networks of a block and an encoding": "",
    "color histogram error": "histogram error",
    "misplaced fraction": "misplaced",
    "loss reduction per doubling of depth": "loss",
    "accuracy gain per doubling of depth": "accuracy",
    "convolutions": "conv",
}


def claim_rows(claims: Mapping[str, Sequence[Values]]) -> dict[str, list[ForestRow]]:
    """Return the measured contrasts of claims.json by the label of their axis; a row has a mark for each
    pool, or one mark where the pools agree.
    """
    marks: dict[tuple[str, str], dict[str, Mark]] = {}
    effects: dict[tuple[str, str], float] = {}
    for pool, found in claims.items():
        for claim in found:
            for each in claim["contrasts"]:
                if each["mean"] is not None:
                    key = each["unit"], f"{claim['letter']}  {_shorten(each['text'])}"
                    interval = each["interval"] and tuple(each["interval"])
                    marks.setdefault(key, {})[display_name(pool)] = Mark(each["mean"], interval)
                    effects[key] = each["effect"]
    panels: dict[str, list[ForestRow]] = {}
    for (unit, label), by_pool in marks.items():
        same = len(by_pool) > 1 and len(set(by_pool.values())) == 1
        shown = {"both pools": next(iter(by_pool.values()))} if same else by_pool
        panels.setdefault(AXES.get(unit, unit), []).append(ForestRow(label, shown, effects[unit, label]))
    return panels


def row_numbers(panels: Mapping[str, Sequence[ForestRow]]) -> dict[str, Any]:
    """Return the plotted numbers by axis and row."""
    return {
        axis: {
            row.label: {"effect": row.effect, **{name: mark._asdict() for name, mark in row.marks.items()}}
            for row in rows
        }
        for axis, rows in panels.items()
    }


def _shorten(text: str) -> str:
    for words, short in SHORTER.items():
        text = text.replace(words, short)
    return text
