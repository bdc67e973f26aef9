"""Scaling: IsoFLOP profiles, and the power laws of their optima."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from isopix.plots import style

PANEL_HEIGHT = 2.9  # inches


class IsoFLOP(NamedTuple):
    """The networks of a budget, and the parabola through them in the logarithm of their sizes."""

    budget: float
    parameters: NDArray[np.float64]
    values: NDArray[np.float64]
    parabola: NDArray[np.float64]  # the coefficients, highest first
    fitted: tuple[float, float]  # the smallest and the largest size of the parabola
    best: tuple[float, float] | None  # parameters and value at the vertex; None: a size at an end is best


class Trend(NamedTuple):
    """A quantity at each budget, with 95% intervals, and the power law of all budgets but the largest."""

    budgets: Sequence[float]
    values: Sequence[float]
    intervals: Sequence[tuple[float, float]]
    law: tuple[float, float]  # factor and exponent


@style.figure_style()
def plot_profiles(profiles: Mapping[tuple[str, str], Sequence[IsoFLOP]]) -> Figure:
    """Plot values against parameters, a panel for each title and quantity and a curve for each budget."""
    figure, panels = _panels(len(profiles))
    for axes, ((title, quantity), own) in zip(panels, profiles.items(), strict=False):
        for each, color in zip(own, style.SEQUENTIAL(np.linspace(0.35, 1, len(own))), strict=True):
            sizes = np.geomspace(*each.fitted, 100)
            curve = np.polyval(each.parabola, np.log(sizes))
            axes.plot(each.parameters, each.values, "o", color=color, markersize=3, alpha=0.6)
            axes.plot(sizes, curve, color=color, label=f"{format_flops(each.budget)} FLOPs")
            if each.best is not None:
                axes.plot(*each.best, "o", color=color, markersize=9, markerfacecolor="none")
        axes.set(xlabel="Parameters in blocks", ylabel=quantity, title=title)
        _log_axis(axes, "x")
        axes.legend(fontsize=7.5)
    return figure


@style.figure_style()
def plot_trends(trends: Mapping[str, Mapping[str, Trend]]) -> Figure:
    """Plot quantities against the budget, a panel for each and a color for each name."""
    figure, panels = _panels(len(trends))
    names = dict.fromkeys(name for own in trends.values() for name in own)
    colors = dict(zip(names, style.COLORS, strict=False))
    for axes, (quantity, own) in zip(panels, trends.items(), strict=False):
        for name, each in own.items():
            low, high = np.array(each.intervals).T
            ends = np.array([each.budgets[0] / 1.5, each.budgets[-1] * 1.5])
            axes.vlines(each.budgets, low, high, color=colors[name], alpha=0.4, linewidth=2.2)
            axes.plot(each.budgets, each.values, "o", color=colors[name], label=name)
            line: Any = {"color": colors[name], "linewidth": 1, "linestyle": style.DASHED}
            axes.plot(ends, each.law[0] * ends ** each.law[1], **line)
        axes.set(xlabel="Training FLOPs", ylabel=quantity)
        _log_axis(axes, "x", format_flops)
        _log_axis(axes, "y")
        axes.legend(fontsize=7.5)
    return figure


@style.figure_style()
def plot_methods(points: Mapping[str, Mapping[float, Sequence[float]]]) -> Figure:
    """Plot the mean and range of accuracies against FLOPs, a line for each method; dashed for none."""
    figure, panels = _panels(1)
    axes = panels[0]
    for (name, own), color in zip(points.items(), cycle(style.COLORS), strict=False):
        means = {flops: float(np.mean(same)) for flops, same in own.items()}
        if 0 in own:
            axes.axhline(means[0], color=color, linewidth=1.2, linestyle=style.DASHED, label=name)
            continue
        ends = np.array([(min(same), max(same)) for same in own.values()]).T
        axes.vlines([*own], *ends, color=color, alpha=0.4, linewidth=2.2)
        axes.plot([*means], [*means.values()], "o-", color=color, label=name)
    axes.set(xlabel="Training FLOPs", ylabel="Probe test accuracy")
    _log_axis(axes, "x", format_flops)
    style.percent_ticks(axes.yaxis)
    figure.legend(loc="outside right upper")
    return figure


def _panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    columns = count if count <= 3 else 2
    rows = -(-count // columns)
    figure = style.new_figure(rows * PANEL_HEIGHT)
    panels: Any = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat[count:]:
        axes.set_axis_off()
    return figure, panels.flat[:count]


def format_flops(value: float, _position: int | None = None) -> str:
    """Return 5e11; the position is that of a tick."""
    return f"{value:.0e}".replace("+", "")


def _log_axis(axes: Axes, which: Literal["x", "y"], form: Callable[..., str] | None = None) -> None:
    """Make an axis logarithmic, with ticks at 1, 2 and 5; by default, thousands are k."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log"})
    narrow = axis.get_data_interval()[1] < 3 * axis.get_data_interval()[0]
    axis.set_major_locator(MaxNLocator(5) if narrow else LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(form or EngFormatter(sep=""))
    axis.set_minor_locator(NullLocator())
