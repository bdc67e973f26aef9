"""Loss and accuracy over training steps; probe accuracy over layers, against the loss, and as bars."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from isopix.plots import style

LogRecord = Mapping[str, Any]  # a line of a run's log
Probe = Any  # a result of `probe`: `network` and `baselines`, with `layers`, `best` and `majority_accuracy`

WIDTH, HEIGHT = 5.6, 3.7  # inches: half a page on a screen, a column in print
MAX_POINTS = 2000  # of a curve, which is 560 pixels wide
SMOOTHING = 0.04  # window of the running mean, as a fraction of all points
LABEL_HEIGHT = 0.062  # of a line of text, as a fraction of the height of the axes
BAR_WIDTH = 0.36
RAW_PIXELS = "raw pixels"  # the name of this baseline in a probe's result


class CurveLabel(NamedTuple):
    """The label of a curve, placed to the right of the axes at height `y`."""

    y: float
    text: str
    color: str


class ProbePoint(NamedTuple):
    """Validation loss in nats, and probe accuracy with its 95% interval, at a training step."""

    step: int
    loss: float
    accuracy: float
    low: float
    high: float


class Bar(NamedTuple):
    """An accuracy, a fraction of images, and that of an ensemble, if there is one."""

    name: str
    accuracy: float
    ensemble: float | None = None


@style.figure_style()
def plot_loss(
    records: Sequence[LogRecord],
    vocab_size: int | None,
    *,
    unit: str = "code",
    loss_key: str = "loss_nats",
    baselines: Mapping[str, float] | None = None,
) -> Figure:
    """Plot training, validation and test loss in nats (left axis) and bits (right axis) per `unit`, with
    lines at ln `vocab_size`, the untrained loss, and at `baselines` by name; the probe accuracy below.
    """
    probes = probe_points(records)
    figure = style.new_figure(HEIGHT * (1.5 if probes else 1), WIDTH)
    axes, *below = figure.subplots(2 if probes else 1, sharex=True, squeeze=False)[:, 0]
    if vocab_size is not None:
        nats, color = math.log(vocab_size), style.MUTED_COLOR
        axes.axhline(nats, color=color, linewidth=1, linestyle=style.DOTTED)
        look: Any = {"fontsize": 8.5, "ha": "right", "va": "bottom", "transform": axes.get_yaxis_transform()}
        axes.text(0.99, nats, f"untrained: ln {vocab_size} = {nats:.2f}", color=color, **look)
    train = _points(records, "train", None, loss_key)
    if len(train):
        at, smooth = thin(train[:, 1]), running_mean(train[:, 1])
        axes.plot(*train[at].T, color=style.COLORS[0], linewidth=0.6, alpha=0.4, label="training, as logged")
        axes.plot(train[at, 0], smooth[at], color=style.COLORS[0], label="training, smoothed")
    for split, color, marker in (("validation", style.COLORS[1], "o"), ("test", style.TEXT_COLOR, "D")):
        points = _points(records, "evaluation", split, loss_key)
        if len(points):
            label = f"{split} {points[-1, 1]:.2f}"
            points = points[thin(points[:, 1])]
            axes.plot(*points.T, marker, color=color, ls="-", lw=0.8, clip_on=False, zorder=3, label=label)
    for (name, nats), linestyle in zip((baselines or {}).items(), cycle((style.DASHED, "-."))):
        look = {"linewidth": 1, "linestyle": linestyle, "label": f"{name} {nats:.2f}"}
        axes.axhline(nats, color=style.TEXT_COLOR, **look)
    axes.set_ylabel(f"Loss (nats per {unit})")
    axes.margins(x=0.02, y=0.12)
    for panel in below:
        _draw_probes(panel, probes)
    [axes, *below][-1].set_xlabel("Step")
    to_bits_and_back = (lambda nats: nats / math.log(2), lambda bits: bits * math.log(2))
    bits = axes.secondary_yaxis("right", functions=to_bits_and_back)
    bits.set_ylabel(f"Loss (bits per {unit})")
    bits.spines["right"].set_visible(True)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=3)  # inside it would cover the baselines
    return figure


def _draw_probes(axes: Axes, probes: Sequence[ProbePoint]) -> None:
    steps, _, accuracies, low, high = np.array(probes).T
    axes.fill_between(steps, low, high, color=style.COLORS[1], alpha=0.16, linewidth=0)
    axes.plot(steps, accuracies, "o-", color=style.COLORS[1], linewidth=0.8)
    axes.set_ylabel("Probe accuracy")
    axes.margins(y=0.12)
    style.percent_ticks(axes.yaxis)


@style.figure_style()
def plot_probe_accuracy(probes: Mapping[str, Probe]) -> Figure:
    """Plot test accuracy with 95% intervals by layer, for each run by name; the best layer is ringed."""
    figure, axes = _new_axes()
    labels: dict[CurveLabel, None] = {}
    for (name, probe), color in zip(probes.items(), cycle(style.COLORS), strict=False):
        curves = _probe_curves(axes, probe, name, color, alone=len(probes) == 1)
        labels |= dict.fromkeys(curves)  # levels that runs share are there once
    axes.set(xlabel="Layer (0 = embedding)", ylabel="Probe test accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.03)
    _label_accuracies(axes, list(labels))
    return figure


def _probe_curves(axes: Axes, probe: Probe, name: str, color: str, *, alone: bool) -> Iterable[CurveLabel]:
    layers, test = _by_layer(probe.network)
    low, high = zip(*(score.interval for score in probe.network.layers), strict=True)
    axes.fill_between(layers, low, high, color=color, alpha=0.16, linewidth=0)
    axes.plot(layers, test, color=color, marker="o")
    best = probe.network.best
    _ring_point(axes, best.layer, best.test_accuracy, color)
    yield _percent_label(name, test[-1], color)
    prefix, baseline_color = ("", style.MUTED_COLOR) if alone else (f"{name}, ", color)
    for baseline, result in probe.baselines.items():
        if len(result.layers) > 1:
            layers, test = _by_layer(result)
            axes.plot(layers, test, "o--", color=baseline_color, linewidth=1, markersize=3)
            yield CurveLabel(test[-1], f"{prefix}{baseline}", baseline_color)
    levels = [("majority class", probe.network.majority_accuracy, style.MUTED_COLOR, ":")]
    if RAW_PIXELS in probe.baselines:
        pixels = probe.baselines[RAW_PIXELS].best.test_accuracy
        levels.append((RAW_PIXELS, pixels, style.TEXT_COLOR, "-."))
    for level, accuracy, level_color, linestyle in levels:
        axes.axhline(accuracy, color=level_color, linewidth=1, linestyle=linestyle)
        yield _percent_label(level, accuracy, level_color)


@style.figure_style()
def plot_finetuning_accuracy(
    records: Sequence[LogRecord], majority: float | None, *, best: LogRecord | None = None
) -> Figure:
    """Plot validation accuracy with the selected step ringed, test accuracy, and the majority class."""
    figure, axes = _new_axes()
    validation = [(each["step"], each["accuracy"]) for each in records if each["split"] == "validation"]
    labels = []
    if validation:
        axes.plot(*zip(*validation, strict=True), color=style.COLORS[1], marker="o")
        labels.append(_percent_label("validation", validation[-1][1], style.COLORS[1]))
    if best:
        _ring_point(axes, best["step"], best["accuracy"], style.COLORS[1])
    for each in records:
        if each["split"] == "test":
            axes.plot(each["step"], each["accuracy"], "D", color=style.TEXT_COLOR, clip_on=False, zorder=3)
            labels.append(_percent_label("test", each["accuracy"], style.TEXT_COLOR))
    if majority is not None:
        axes.axhline(majority, color=style.MUTED_COLOR, linewidth=1, linestyle=":")
        labels.append(_percent_label("majority class", majority, style.MUTED_COLOR))
    axes.set(xlabel="Step", ylabel="Accuracy")
    axes.margins(x=0.03)
    axes.set_xlim(left=min(0, axes.get_xlim()[0]))  # shows step 0 even for a single point
    _label_accuracies(axes, labels)
    return figure


@style.figure_style()
def plot_accuracy_vs_loss(runs: Mapping[str, Sequence[ProbePoint]], *, unit: str = "code") -> Figure:
    """Plot probe accuracy with its 95% interval against validation loss, a line per run (iGPT figure 3).

    The loss decreases to the right, as in the paper. Labels show the last accuracy of each run.
    """
    figure, axes = _new_axes()
    labels: list[CurveLabel] = []
    for (name, points), color in zip(runs.items(), cycle(style.COLORS), strict=False):
        trained = np.array([each for each in points if each.step > 0])
        _, losses, accuracies, low, high = trained.T
        axes.vlines(losses, low, high, color=color, alpha=0.28, linewidth=2.2)
        look: Any = {"markeredgecolor": style.BACKGROUND, "markeredgewidth": 0.6}
        axes.plot(losses, accuracies, "o-", color=color, **look)
        _ring_point(axes, losses[-1], accuracies[-1], color)
        labels.append(_percent_label(name, accuracies[-1], color))
        for each in points:
            if each.step == 0:
                axes.axhline(each.accuracy, color=color, linewidth=1, linestyle=style.DASHED, alpha=0.7)
                untrained = f"{name}, untrained" if len(runs) > 1 else "untrained"
                labels.append(_percent_label(untrained, each.accuracy, color))
    axes.set(xlabel=f"Validation loss (nats per {unit}), decreasing", ylabel="Probe accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    style.percent_ticks(axes.yaxis)
    axes.margins(x=0.06, y=0.12)
    axes.invert_xaxis()
    label_curves(axes, labels)
    return figure


@style.figure_style()
def plot_accuracy_bars(groups: Mapping[str, Sequence[Bar]]) -> Figure:
    """Plot a group of bars for each key, a color for each name; ensembles are outlines (iGPT figure 4)."""
    figure, axes = _new_axes()
    names = list(dict.fromkeys(bar.name for bars in groups.values() for bar in bars))
    for place, bars in enumerate(groups.values()):
        for bar in bars:
            index = names.index(bar.name)
            x = place + (index - (len(names) - 1) / 2) * BAR_WIDTH
            label = bar.name if place == 0 else None
            axes.bar(x, bar.accuracy, 0.9 * BAR_WIDTH, color=style.COLORS[index], label=label)
            if bar.ensemble is not None:
                axes.bar(x, bar.ensemble, 0.9 * BAR_WIDTH, fill=False, edgecolor=style.TEXT_COLOR)
            top = max(bar.accuracy, bar.ensemble or 0)
            axes.text(x, top, f"{100 * bar.accuracy:.1f}%", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(groups)), [style.wrap_title(name) for name in groups])
    axes.set_ylabel("Test accuracy")
    axes.margins(y=0.12)
    style.percent_ticks(axes.yaxis)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=len(names))
    return figure


def probe_points(records: Iterable[LogRecord]) -> list[ProbePoint]:
    """Return the steps of a run's log that have both a validation loss and a probe, in order."""
    names = ("step", "loss_nats", "probe_accuracy", "probe_low", "probe_high")
    return sorted(ProbePoint(*map(each.__getitem__, names)) for each in records if set(names) <= each.keys())


def thin(values: Float[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
    """Return the indices of at most MAX_POINTS values: the first, the last, and extremes between them."""
    if len(values) <= MAX_POINTS:
        return np.arange(len(values))
    parts = np.array_split(np.arange(len(values)), MAX_POINTS // 2 - 1)
    extremes = [part[find(values[part])] for part in parts for find in (np.argmin, np.argmax)]
    return np.unique([0, *extremes, len(values) - 1])


def running_mean(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return a centered running mean over 4% of the points; the window shrinks symmetrically at the ends."""
    total = np.concatenate([[0.0], values.cumsum()])
    index = np.arange(len(values))
    half = np.minimum(round(SMOOTHING * len(values) / 2), np.minimum(index, index[::-1]))
    return (total[index + half + 1] - total[index - half]) / (2 * half + 1)


def spread_labels(positions: Sequence[float], gap: float) -> list[float]:
    """Return the positions, moved apart as little as possible to be at least `gap` apart."""
    order = np.argsort(positions, kind="stable")
    moved, ranks = np.array(positions, dtype=float), gap * np.arange(len(order))
    if len(order):
        moved[order] = isotonic_regression(moved[order] - ranks).x + ranks
    return moved.tolist()


def label_curves(axes: Axes, labels: Sequence[CurveLabel]) -> None:
    """Write the labels to the right of the axes, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    heights = spread_labels([(label.y - low) / (high - low) for label in labels], LABEL_HEIGHT)
    look: Any = {"transform": axes.transAxes, "va": "center", "fontsize": 8.5, "parse_math": False}
    for height, label in zip(heights, labels, strict=True):
        axes.text(1.02, height, label.text, color=label.color, **look)


def _new_axes() -> tuple[Figure, Axes]:
    figure = style.new_figure(HEIGHT, WIDTH)
    return figure, figure.add_subplot()


def _points(records: Sequence[LogRecord], kind: str, split: str | None, key: str) -> Float[np.ndarray, "n 2"]:
    """Return (step, value) of the records of a kind; the step is that of the evaluated weights."""
    found = [each for each in records if each["kind"] == kind and each.get("split") == split and key in each]
    return np.array([(each["step"], each[key]) for each in found], dtype=float).reshape(-1, 2)


def _label_accuracies(axes: Axes, labels: Sequence[CurveLabel]) -> None:
    highest = max([axes.dataLim.y1, *(label.y for label in labels)])
    style.percent_ticks(axes.yaxis)
    axes.set_ylim(0, min(1.04, 1.2 * highest))
    label_curves(axes, labels)


def _percent_label(name: str, accuracy: float, color: str) -> CurveLabel:
    return CurveLabel(accuracy, f"{name} {100 * accuracy:.1f}%", color)


def _ring_point(axes: Axes, x: int | float, y: float, color: str) -> None:
    axes.plot(x, y, "o", color=color, markersize=11, markerfacecolor="none")


def _by_layer(scores: Any) -> Float[np.ndarray, "2 layers"]:
    return np.array([(each.layer, each.test_accuracy) for each in scores.layers]).T
