"""Loss and accuracy over training steps, and probe accuracy over layers."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

LogRecord = Mapping[str, Any]  # a line of a run's log

WIDTH, HEIGHT = 5.6, 3.7  # inches: half a page on a screen, a column in print
SMOOTHING = 0.04  # window of the running mean, as a fraction of all points
LABEL_HEIGHT = 0.062  # of a line of text, as a fraction of the height of the axes
BITS_PER_NAT = 1 / math.log(2)
RAW_PIXELS = "raw pixels"  # the name of this baseline in a probe's report


@runtime_checkable
class LayerAccuracy(Protocol):
    """Test accuracy of a probe of one layer, with its 95 % interval."""

    @property
    def layer(self) -> int: ...
    @property
    def test_accuracy(self) -> float: ...
    @property
    def interval(self) -> tuple[float, float]: ...


@runtime_checkable
class NetworkAccuracy(Protocol):
    """Test accuracy of the probed layers, of the layer to report, and of the majority class."""

    @property
    def layers(self) -> Sequence[LayerAccuracy]: ...
    @property
    def best(self) -> LayerAccuracy: ...
    @property
    def majority_accuracy(self) -> float: ...


@runtime_checkable
class ProbeAccuracy(Protocol):
    """Test accuracy of a network, and of its baselines by name."""

    @property
    def network(self) -> NetworkAccuracy: ...
    @property
    def baselines(self) -> Mapping[str, NetworkAccuracy]: ...


class CurveLabel(NamedTuple):
    """The label of a curve, placed to the right of the axes at height `y`."""

    y: float
    text: str
    color: str


@style.figure_style()
def plot_loss(
    records: Sequence[LogRecord],
    vocab_size: int | None,
    *,
    unit: str = "code",
    loss_key: str = "loss_nats",
    baselines: Mapping[str, float] | None = None,
) -> Figure:
    """Plot training, validation and test loss in nats (left axis) and bits (right axis) per `unit`.

    A dotted line at ln `vocab_size` marks the untrained loss, if given, and other lines those of
    `baselines` by name. `loss_key` is the field of the records that holds the loss.
    """
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    if vocab_size is not None:
        _untrained_loss(axes, vocab_size)
    train = _points(records, "train", key=loss_key)
    if len(train):
        axes.plot(*train.T, color=style.COLORS[0], linewidth=0.6, alpha=0.4, label="training, as logged")
        smooth = running_mean(train[:, 1])
        axes.plot(train[:, 0], smooth, color=style.COLORS[0], label="training, smoothed")
    for split, color, marker in (("validation", style.COLORS[1], "o"), ("test", style.TEXT_COLOR, "D")):
        points = _points(records, "evaluation", split, loss_key)
        if len(points):
            label = f"{split} {points[-1, 1]:.2f}"
            axes.plot(*points.T, marker, color=color, ls="-", lw=0.8, clip_on=False, zorder=3, label=label)
    for (name, nats), linestyle in zip((baselines or {}).items(), cycle((style.DASHED, "-."))):
        label = f"{name} {nats:.2f}"
        axes.axhline(nats, color=style.TEXT_COLOR, linewidth=1, linestyle=linestyle, label=label)
    axes.set(xlabel="Step", ylabel=f"Loss (nats per {unit})")
    axes.margins(x=0.02, y=0.12)
    bits = axes.secondary_yaxis(
        "right", functions=(partial(np.multiply, BITS_PER_NAT), partial(np.multiply, 1 / BITS_PER_NAT))
    )
    bits.set_ylabel(f"Loss (bits per {unit})")
    bits.spines["right"].set_visible(True)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=3)  # inside it would cover the baselines
    return figure


def _untrained_loss(axes: Axes, vocab_size: int) -> None:
    nats = math.log(vocab_size)
    axes.axhline(nats, color=style.MUTED_COLOR, linewidth=1, linestyle=style.DOTTED, label="_untrained")
    text, transform = f"untrained: ln {vocab_size} = {nats:.2f}", axes.get_yaxis_transform()
    axes.text(
        *(0.99, nats, text),
        transform=transform,
        color=style.MUTED_COLOR,
        fontsize=8.5,
        ha="right",
        va="bottom",
    )


@style.figure_style()
def plot_probe_accuracy(probes: Mapping[str, ProbeAccuracy]) -> Figure:
    """Plot test accuracy with 95 % intervals by layer, for each run by name; the best layer is ringed.

    Baselines: the untrained network, raw pixels and the majority class.
    """
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    labels: list[CurveLabel] = []
    for (name, probe), color in zip(probes.items(), cycle(style.COLORS), strict=False):
        labels.append(_network_curve(axes, probe.network, name, color))
        prefix = (f"{name}, ", color) if len(probes) > 1 else ("", style.MUTED_COLOR)
        labels += _baseline_curves(axes, probe.baselines, *prefix)
    labels += _baseline_levels(axes, probes)
    axes.set(xlabel="Layer (0 = embedding)", ylabel="Probe test accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.03)
    _label_accuracies(axes, labels, max(axes.dataLim.y1, *(label.y for label in labels)))
    return figure


@style.figure_style()
def plot_finetuning_accuracy(
    records: Sequence[LogRecord], majority: float | None, *, best: LogRecord | None = None
) -> Figure:
    """Plot validation accuracy with the selected step ringed, test accuracy, and the majority class."""
    figure = style.new_figure(HEIGHT, WIDTH)
    axes = figure.add_subplot()
    validation = [(each["step"], each["accuracy"]) for each in records if each["split"] == "validation"]
    labels = []
    if validation:
        color, last = style.COLORS[1], validation[-1][1]
        axes.plot(*zip(*validation, strict=True), color=color, marker="o", label="_validation")
        reported = last if best is None else best["accuracy"]
        labels.append(percent_label("validation", reported, color)._replace(y=last))
    if best:
        ring_point(axes, best["step"], best["accuracy"], style.COLORS[1])
    for each in records:
        if each["split"] == "test":
            axes.plot(
                *(each["step"], each["accuracy"], "D"),
                color=style.TEXT_COLOR,
                clip_on=False,
                zorder=3,
                label="_test",
            )
            labels.append(percent_label("test", each["accuracy"], style.TEXT_COLOR))
    if majority is not None:
        axes.axhline(majority, color=style.MUTED_COLOR, linewidth=1, linestyle=":", label="_majority class")
        labels.append(percent_label("majority class", majority, style.MUTED_COLOR))
    axes.set(xlabel="Step", ylabel="Accuracy")
    axes.margins(x=0.03)
    axes.set_xlim(left=min(0, axes.get_xlim()[0]))  # shows step 0 even for a single point
    accuracies = [*(label.y for label in labels), *(accuracy for _, accuracy in validation)]
    _label_accuracies(axes, labels, max(accuracies, default=1))
    return figure


def running_mean(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return a centered running mean over 4 % of the points; the window shrinks symmetrically at the ends."""
    half_window = round(SMOOTHING * len(values) / 2)
    total = np.concatenate([[0.0], values.cumsum()])
    index = np.arange(len(values))
    half = np.minimum(half_window, np.minimum(index, len(values) - 1 - index))
    return (total[index + half + 1] - total[index - half]) / (2 * half + 1)


def spread_labels(positions: Sequence[float], gap: float) -> list[float]:
    """Return the positions, moved apart to be at least `gap` apart; a moved group keeps its center."""
    groups: list[list[int]] = []
    for i in sorted(range(len(positions)), key=positions.__getitem__):
        group = [i]
        while (
            groups
            and _center(positions, group) - _center(positions, groups[-1])
            < gap * (len(group) + len(groups[-1])) / 2
        ):
            group = groups.pop() + group
        groups.append(group)
    moved = list(positions)
    for group in groups:
        for rank, i in enumerate(group):
            moved[i] = _center(positions, group) + gap * (rank - (len(group) - 1) / 2)
    return moved


def label_curves(axes: Axes, labels: Sequence[CurveLabel]) -> None:
    """Write the labels to the right of the axes, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    heights = spread_labels([(label.y - low) / (high - low) for label in labels], LABEL_HEIGHT)
    for height, label in zip(heights, labels, strict=True):
        axes.text(
            *(1.02, height),
            label.text,
            color=label.color,
            transform=axes.transAxes,
            va="center",
            fontsize=8.5,
            parse_math=False,
        )


def _center(positions: Sequence[float], group: Sequence[int]) -> float:
    return sum(positions[i] for i in group) / len(group)


def _points(
    records: Sequence[LogRecord], kind: str, split: str | None = None, key: str = "loss_nats"
) -> Float[np.ndarray, "n 2"]:
    """Return (step, value) of the records of a kind; the step is that of the evaluated weights."""
    found = [each for each in records if each["kind"] == kind and each.get("split") == split and key in each]
    points = [(each["step"], each[key]) for each in found]
    return np.array(points, dtype=float).reshape(-1, 2)


def _label_accuracies(axes: Axes, labels: Sequence[CurveLabel], highest: float) -> None:
    """Show accuracies from 0 to some space above the highest."""
    style.percent_ticks(axes.yaxis)
    axes.set_ylim(0, min(1.04, 1.2 * highest))
    label_curves(axes, labels)


def percent_label(name: str, accuracy: float, color: str) -> CurveLabel:
    """Return the label of a curve with its accuracy, at that height."""
    return CurveLabel(accuracy, f"{name} {100 * accuracy:.1f} %", color)


def ring_point(axes: Axes, x: int | float, y: float, color: str) -> None:
    """Mark the point that is reported."""
    axes.plot(x, y, "o", color=color, markersize=11, markerfacecolor="none", label="_reported")


def _by_layer(result: NetworkAccuracy) -> tuple[list[int], list[float]]:
    return [score.layer for score in result.layers], [score.test_accuracy for score in result.layers]


def _network_curve(axes: Axes, result: NetworkAccuracy, name: str, color: str) -> CurveLabel:
    layer, test = _by_layer(result)
    low, high = zip(*(score.interval for score in result.layers), strict=True)
    axes.fill_between(layer, low, high, color=color, alpha=0.16, linewidth=0, label=f"_{name}, 95 % interval")
    axes.plot(layer, test, color=color, marker="o", label=f"_{name}")
    best = result.best
    ring_point(axes, best.layer, best.test_accuracy, color)
    return percent_label(name, best.test_accuracy, color)._replace(y=test[-1])


def _baseline_curves(
    axes: Axes, baselines: Mapping[str, NetworkAccuracy], prefix: str, color: str
) -> list[CurveLabel]:
    """Plot the baselines that have layers."""
    labels = []
    for name, result in baselines.items():
        if len(result.layers) > 1:
            layer, test = _by_layer(result)
            axes.plot(layer, test, "o--", color=color, linewidth=1, markersize=3, label=f"_{prefix}{name}")
            labels.append(CurveLabel(test[-1], f"{prefix}{name}", color))
    return labels


def _baseline_levels(axes: Axes, probes: Mapping[str, ProbeAccuracy]) -> list[CurveLabel]:
    """Plot raw pixels and the majority class as horizontal lines, once if several runs share them."""
    labels: dict[CurveLabel, str] = {}
    for probe in probes.values():
        if RAW_PIXELS in probe.baselines:
            test = probe.baselines[RAW_PIXELS].best.test_accuracy
            labels[percent_label(RAW_PIXELS, test, style.TEXT_COLOR)] = "-."
        majority = probe.network.majority_accuracy
        labels[percent_label("majority class", majority, style.MUTED_COLOR)] = ":"
    for label, linestyle in labels.items():
        axes.axhline(label.y, color=label.color, linewidth=1, linestyle=linestyle, label=f"_{label.text}")
    return list(labels)
