"""Probe accuracy against validation loss over the course of pre-training (iGPT figure 3)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.core.stats import Correlation, spearman
from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, CurveLabel, LogRecord, label_curves, percent_label, ring_point


class ProbePoint(NamedTuple):
    """Validation loss in nats, and probe accuracy with its 95 % interval, at a training step."""

    step: int
    loss: float
    accuracy: float
    low: float
    high: float


def probe_points(records: Iterable[LogRecord]) -> list[ProbePoint]:
    """Return the steps of a run's log that have both a validation loss and a probe, in order."""
    names = ("step", "loss_nats", "probe_accuracy", "probe_low", "probe_high")
    points = [
        ProbePoint(*map(record.__getitem__, names)) for record in records if set(names) <= record.keys()
    ]
    return sorted(points)


def loss_accuracy_correlation(points: Sequence[ProbePoint]) -> Correlation | None:
    """Return Spearman's correlation of loss and accuracy after step 0: -1 if every lower loss has a higher
    accuracy. None for fewer than five points, and for constant losses or accuracies.

    The interval assumes independent points. Those of one run are not, so that it is too narrow.
    """
    trained = [point for point in points if point.step > 0]
    losses, accuracies = ([getattr(point, name) for point in trained] for name in ("loss", "accuracy"))
    return spearman(np.array(losses), np.array(accuracies))


@style.figure_style()
def plot_accuracy_vs_loss(runs: Mapping[str, Sequence[ProbePoint]], *, unit: str = "code") -> Figure:
    """Plot probe accuracy with its 95 % interval against validation loss in nats per `unit`, a line per run.

    The loss decreases to the right, as in the paper. The untrained network, whose loss is far higher, is a
    horizontal line. Labels show the last accuracy and the rank correlation of each run.
    """
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    labels: list[CurveLabel] = []
    for (name, points), color in zip(runs.items(), cycle(style.COLORS), strict=False):
        labels += _trained(axes, [point for point in points if point.step > 0], name, color)
        labels += _untrained(axes, points, f"{name}, " if len(runs) > 1 else "", color)
    axes.set(xlabel=f"Validation loss (nats per {unit}), decreasing", ylabel="Probe accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    style.percent_ticks(axes.yaxis)
    axes.margins(x=0.06, y=0.12)
    axes.invert_xaxis()
    label_curves(axes, labels)
    return figure


def format_correlation(correlation: Correlation) -> str:
    """Return a rank correlation with its interval to two decimals: `ρ −0.93 (−0.99 to −0.61)`."""
    rho, low, high = (f"{value:.2f}".replace("-", "−") for value in correlation[:3])
    return f"ρ {rho} ({low} to {high})"


def _trained(axes: Axes, points: Sequence[ProbePoint], name: str, color: str) -> list[CurveLabel]:
    losses, accuracies = [point.loss for point in points], [point.accuracy for point in points]
    low, high = [point.low for point in points], [point.high for point in points]
    axes.vlines(losses, low, high, color=color, alpha=0.28, linewidth=2.2, label=f"_{name}, 95 % interval")
    axes.plot(
        *(losses, accuracies, "o-"),
        color=color,
        markeredgecolor=style.BACKGROUND,
        markeredgewidth=0.6,
        label=f"_{name}",
    )
    last, correlation = points[-1], loss_accuracy_correlation(points)
    ring_point(axes, last.loss, last.accuracy, color)
    label = percent_label(name, last.accuracy, color)
    if correlation is None:
        return [label]
    return [CurveLabel(last.accuracy, format_correlation(correlation), color), label]  # the second is above


def _untrained(axes: Axes, points: Sequence[ProbePoint], prefix: str, color: str) -> list[CurveLabel]:
    labels = []
    for point in points:
        if point.step == 0:
            label = f"_{prefix}untrained"
            axes.axhline(
                point.accuracy, color=color, linewidth=1, linestyle=style.DASHED, alpha=0.7, label=label
            )
            labels.append(percent_label(f"{prefix}untrained", point.accuracy, color))
    return labels
