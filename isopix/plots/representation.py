"""Representation against loss: a line a network, along its training (iGPT figure 3)."""

from collections.abc import Mapping, Sequence
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from isopix.analysis.representation import Point, correlation
from isopix.core.correlation import Correlation
from isopix.plots import style
from isopix.plots.curves import HEIGHT, WIDTH, Label, annotate


@style.paper()
def against_loss(lines: Mapping[str, Sequence[Point]], *, code: str = "code") -> Figure:
    """Accuracy of the probe, with its 95 % interval, against validation loss in nats a `code`, by name.

    Lower loss is to the right, as in the paper. The untrained network, whose loss lies far to the left, is a
    level of its own; beside each line stand its last accuracy and its rank correlation.
    """
    drawn = style.figure(HEIGHT, WIDTH)
    axes = drawn.add_subplot()
    labels: list[Label] = []
    for (name, line), colour in zip(lines.items(), cycle(style.LINES), strict=False):
        trained = [point for point in line if point.step > 0]
        labels += _trained(axes, trained, name, colour)
        labels += _untrained(axes, line, f"{name}, " if len(lines) > 1 else "", colour)
    axes.set(xlabel=f"validation loss, nats a {code}: better to the right", ylabel="accuracy of the probe")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    axes.margins(x=0.06, y=0.12)
    axes.invert_xaxis()
    annotate(axes, labels)
    return drawn


def told(found: Correlation) -> str:
    """Rank correlation and interval to two decimals: `ρ −0.93 (−0.99 to −0.61)`."""
    rho, low, high = (f"{value:.2f}".replace("-", "−") for value in found[:3])
    return f"ρ {rho} ({low} to {high})"


def _trained(axes: Axes, trained: Sequence[Point], name: str, colour: str) -> list[Label]:
    losses, accuracies = [point.loss for point in trained], [point.accuracy for point in trained]
    low, high = [point.low for point in trained], [point.high for point in trained]
    axes.vlines(losses, low, high, color=colour, alpha=0.28, linewidth=2.2)
    axes.plot(losses, accuracies, "o-", color=colour, markeredgecolor=style.PAPER, markeredgewidth=0.6)
    last, found = trained[-1], correlation(trained)
    axes.plot(last.loss, last.accuracy, "o", color=colour, markersize=11, markerfacecolor="none")
    below = [Label(last.accuracy, told(found), colour)] if found else []  # equal heights keep their order
    return [*below, Label(last.accuracy, f"{name} {100 * last.accuracy:.1f} %", colour)]


def _untrained(axes: Axes, line: Sequence[Point], prefix: str, colour: str) -> list[Label]:
    labels = []
    for point in line:
        if point.step == 0:
            axes.axhline(point.accuracy, color=colour, linewidth=1, linestyle=(0, (4, 3)), alpha=0.7)
            labels.append(Label(point.accuracy, f"{prefix}untrained {100 * point.accuracy:.1f} %", colour))
    return labels
