"""Curves: the loss of a run over its steps, and the accuracy of a probe over the layers."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from isopix.plots import style

Record = Mapping[str, Any]  # a line of a run's log
Evidence = Mapping[str, Any]  # as `ProbeReport.to_dict` gives it

WIDTH, HEIGHT = 5.6, 3.7  # inches: half a page on a screen, a column in print
SMOOTHING = 0.04  # of all points make one of the smoothed line
LINE = 0.062  # of the axes' height that a line of text takes
NAT = 1 / math.log(2)  # bits
PIXELS = "raw pixels"  # the control, by its name in the evidence


class Label(NamedTuple):
    """The name of a curve, to stand at its right end."""

    height: float
    text: str
    colour: str


@style.paper()
def loss(
    records: Sequence[Record], levels: int | None, *, code: str = "code", graded: str = "loss_nats"
) -> Figure:
    """Training, validation and test loss in nats (left) and bits (right) a `code`; untrained it is ln K where
    K `levels` then have the same chance. `graded` is what evaluations call it.
    """
    drawn = style.figure(HEIGHT, WIDTH)
    axes = drawn.add_subplot()
    if levels is not None:
        _chance(axes, levels)
    train = _points(records, "train")
    if len(train):
        axes.plot(*train.T, color=style.LINES[0], linewidth=0.6, alpha=0.4)
        axes.plot(train[:, 0], smooth(train[:, 1]), color=style.LINES[0], label="training")
    for split, colour, mark in (("validation", style.LINES[1], "o"), ("test", style.INK, "D")):
        points = _points(records, "evaluation", split, graded)
        if len(points):
            name = f"{split} {points[-1, 1]:.2f}"
            axes.plot(*points.T, mark, color=colour, ls="-", lw=0.8, clip_on=False, zorder=3, label=name)
    axes.set(xlabel="step", ylabel=f"nats a {code}")
    axes.margins(x=0.02, y=0.12)
    bits = axes.secondary_yaxis("right", functions=(partial(np.multiply, NAT), partial(np.multiply, 1 / NAT)))
    bits.set_ylabel(f"bits a {code}")
    bits.spines["right"].set_visible(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper right", bbox_to_anchor=(1, 0.9))
    return drawn


def _chance(axes: Axes, levels: int) -> None:
    nats = math.log(levels)
    axes.axhline(nats, color=style.QUIET, linewidth=1, linestyle=(0, (1, 2)))
    words, place = f"untrained: ln {levels} = {nats:.2f}", axes.get_yaxis_transform()
    axes.text(0.99, nats, words, transform=place, color=style.QUIET, fontsize=8.5, ha="right", va="bottom")


@style.paper()
def accuracy_by_layer(probes: Mapping[str, Evidence]) -> Figure:
    """Test accuracy of every layer with its 95 % interval, by name of the run; the best is ringed.

    Beside it stands what has learnt nothing: the untrained network, raw pixels, always the same class.
    """
    drawn = style.figure(HEIGHT, WIDTH)
    axes = drawn.add_subplot()
    labels: list[Label] = []
    for (name, evidence), colour in zip(probes.items(), cycle(style.LINES), strict=False):
        labels.append(_trained(axes, evidence["network"], name, colour))
        several = (f"{name}, ", colour) if len(probes) > 1 else ("", style.QUIET)
        labels += _untrained(axes, evidence["baselines"], *several)
    labels += _levels(axes, probes)
    axes.set(xlabel="layer (0 is the embedding)", ylabel="test accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    axes.margins(x=0.03)
    axes.set_ylim(0, min(1.04, 1.2 * max(axes.dataLim.y1, *(label.height for label in labels))))
    annotate(axes, labels)
    return drawn


def smooth(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """A centred running mean over 4 % of the points; near an end over as many as there are on both sides."""
    reach = round(SMOOTHING * len(values) / 2)
    total = np.concatenate([[0.0], values.cumsum()])
    place = np.arange(len(values))
    room = np.minimum(reach, np.minimum(place, len(values) - 1 - place))
    return (total[place + room + 1] - total[place - room]) / (2 * room + 1)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """The same places, pushed apart until none is closer than `gap` to the next; a crowd keeps its centre."""
    order = sorted(range(len(places)), key=places.__getitem__)
    crowds: list[list[int]] = []
    for i in order:
        crowd = [i]
        while (
            crowds
            and _centre(places, crowd) - _centre(places, crowds[-1])
            < gap * (len(crowd) + len(crowds[-1])) / 2
        ):
            crowd = crowds.pop() + crowd
        crowds.append(crowd)
    moved = list(places)
    for crowd in crowds:
        for rank, i in enumerate(crowd):
            moved[i] = _centre(places, crowd) + gap * (rank - (len(crowd) - 1) / 2)
    return moved


def annotate(axes: Axes, labels: Sequence[Label]) -> None:
    """Names at the right of their curves, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    places = spread([(label.height - low) / (high - low) for label in labels], LINE)
    for place, label in zip(places, labels, strict=True):
        axes.text(
            *(1.02, place),
            label.text,
            color=label.colour,
            transform=axes.transAxes,
            va="center",
            fontsize=8.5,
            parse_math=False,
        )


def _centre(places: Sequence[float], crowd: Sequence[int]) -> float:
    return sum(places[i] for i in crowd) / len(crowd)


def _points(
    records: Sequence[Record], kind: str, split: str | None = None, name: str = "loss_nats"
) -> Float[np.ndarray, "n 2"]:
    """Each at the step of the weights that it is of."""
    found = [each for each in records if each["kind"] == kind and each.get("split") == split and name in each]
    points = [(each.get("best_step", each["step"]), each[name]) for each in found]
    return np.array(points, dtype=float).reshape(-1, 2)


def _trained(axes: Axes, record: Record, name: str, colour: str) -> Label:
    layers = record["layers"]
    number, test = ([score[key] for score in layers] for key in ("layer", "test_accuracy"))
    low, high = zip(*(score["interval"] for score in layers), strict=True)
    axes.fill_between(number, low, high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(number, test, color=colour, marker="o")
    best = layers[record["best_index"]]
    axes.plot(best["layer"], best["test_accuracy"], "o", color=colour, markersize=11, markerfacecolor="none")
    return Label(test[-1], f"{name} {100 * best['test_accuracy']:.1f} %", colour)


def _untrained(axes: Axes, controls: Mapping[str, Record], prefix: str, colour: str) -> list[Label]:
    """Controls that have layers of their own."""
    labels = []
    for name, record in controls.items():
        layers = record["layers"]
        if len(layers) > 1:
            number, test = ([score[key] for score in layers] for key in ("layer", "test_accuracy"))
            axes.plot(number, test, "o--", color=colour, linewidth=1, markersize=3)
            labels.append(Label(test[-1], f"{prefix}{name}", colour))
    return labels


def _levels(axes: Axes, probes: Mapping[str, Evidence]) -> list[Label]:
    """Raw pixels and the majority class, from side to side; runs that agree on one share it."""
    labels: dict[Label, str] = {}
    for evidence in probes.values():
        if PIXELS in evidence["baselines"]:
            pixels = evidence["baselines"][PIXELS]
            test = pixels["layers"][pixels["best_index"]]["test_accuracy"]
            labels[Label(test, f"{PIXELS} {100 * test:.1f} %", style.INK)] = "-."
        majority = evidence["network"]["majority_accuracy"]
        labels[Label(majority, f"one class {100 * majority:.1f} %", style.QUIET)] = ":"
    for label, line in labels.items():
        axes.axhline(label.height, color=label.colour, linewidth=1, linestyle=line)
    return list(labels)
