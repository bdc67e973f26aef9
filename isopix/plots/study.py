"""Results of a study of many networks: loss against accuracy, and accuracy by layer (inductive biases of
small isotropic nets, figures 4, 6 and 7). Error bars are standard deviations over seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from isopix.plots import style

HEIGHT = 3.7  # inches
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
DISPLAY_NAMES = {
    "conv": "convolution",
    "transformer-1": "transformer, 1 head",
    "transformer-4": "transformer, 4 heads",
    "fourier": "Fourier",
}


class MeanStd(NamedTuple):
    """Mean and standard deviation (n - 1; 0 for one seed) over seeds."""

    mean: float
    std: float
    seeds: int


class TrialGroup(NamedTuple):
    """The trials of one architecture, over seeds."""

    block: str
    encoding: str
    depth: int
    loss: MeanStd
    accuracy: MeanStd  # test accuracy of the layer that validation chose
    layers: tuple[MeanStd, ...]  # test accuracy of each layer 0..L


class MarkerStyle(NamedTuple):
    """The color and marker of a group of points."""

    color: str
    marker: str


@style.figure_style()
def plot_study_loss(points: Sequence[TrialGroup]) -> Figure:
    """Plot best-layer accuracy against loss, marked by block and by encoding (figure 4)."""
    figure = style.new_figure(HEIGHT)
    left, right = figure.subplots(1, 2, sharey=True)
    _scatter(left, points, "block", lambda point: point.block)
    _scatter(right, points, "encoding", lambda point: point.encoding)
    right.set_ylabel("")
    return figure


@style.figure_style()
def plot_study_depth(points: Sequence[TrialGroup], block: str = "conv") -> Figure:
    """Plot best-layer accuracy against loss marked by depth, and the accuracy of every layer of the networks
    of one block (figure 6).
    """
    figure = style.new_figure(HEIGHT)
    left, right = figure.subplots(1, 2)
    by_depth = sorted(points, key=lambda point: point.depth)
    _scatter(left, by_depth, "depth", lambda point: _depth(point.depth))
    styles = _marker_styles(by_depth, lambda point: _depth(point.depth))
    chosen = [point for point in points if point.block == block]
    dashes = dict(zip(dict.fromkeys(point.encoding for point in chosen), cycle(DASHES), strict=False))
    for point in chosen:
        _line(right, point, styles[_depth(point.depth)], dashes[point.encoding])
    right.set_title(f"{display_name(block)}, all layers".capitalize())
    _layer_axes(right)
    handles = [
        Line2D([], [], color=style.TEXT_COLOR, linestyle=dash, label=display_name(name), linewidth=1.3)
        for name, dash in dashes.items()
    ]
    _legend_below(right, handles=handles)
    return figure


@style.figure_style()
def plot_study_layers(
    points: Sequence[TrialGroup], blocks: Sequence[str] = ("mixer", "transformer-1")
) -> Figure:
    """Plot the accuracy of every layer by encoding, a panel per block, of its deepest networks (figure 7)."""
    figure = style.new_figure(HEIGHT)
    panels = figure.subplots(1, len(blocks), sharey=True, squeeze=False)[0]
    styles = _marker_styles(points, lambda point: point.encoding)
    for axes, block in zip(panels, blocks, strict=True):
        own = [point for point in points if point.block == block]
        depth = max(point.depth for point in own)
        for point in own:
            if point.depth == depth:
                _line(axes, point, styles[point.encoding], "-", display_name(point.encoding))
        axes.set_title(f"{display_name(block)}, {_depth(depth)}".capitalize())
        _layer_axes(axes)
        _legend_below(axes)
    for axes in panels[1:]:
        axes.set_ylabel("")
    return figure


def display_name(name: str) -> str:
    """Return the display name of a block or an encoding."""
    return DISPLAY_NAMES.get(name, name)


def _depth(depth: int) -> str:
    return f"{depth} block{'s' * (depth != 1)}"


def _marker_styles(
    points: Sequence[TrialGroup], key: Callable[[TrialGroup], str]
) -> Mapping[str, MarkerStyle]:
    """Return a style per group, in order of appearance."""
    names = dict.fromkeys(map(key, points))
    return {
        name: MarkerStyle(color, marker)
        for name, color, marker in zip(names, cycle(style.COLORS), cycle(MARKERS), strict=False)
    }


def _scatter(axes: Axes, points: Sequence[TrialGroup], title: str, key: Callable[[TrialGroup], str]) -> None:
    for name, look in _marker_styles(points, key).items():
        own = [point for point in points if key(point) == name]
        axes.errorbar(
            [point.loss.mean for point in own],
            [point.accuracy.mean for point in own],
            xerr=_error_bars([point.loss for point in own]),
            yerr=_error_bars([point.accuracy for point in own]),
            fmt=look.marker,
            color=look.color,
            markersize=5.5,
            markeredgecolor=style.BACKGROUND,
            markeredgewidth=0.5,
            elinewidth=1,
            label=display_name(name),
        )
    axes.set_title(f"By {title}")
    axes.set(xlabel="Validation loss (nats per masked sub-pixel)", ylabel="Best-layer test accuracy")
    axes.margins(0.07)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _accuracy_axis(axes)
    _legend_below(axes)


def _line(axes: Axes, point: TrialGroup, look: MarkerStyle, dash: Any, label: str | None = None) -> None:
    axes.errorbar(
        range(len(point.layers)),
        [layer.mean for layer in point.layers],
        yerr=_error_bars(point.layers),
        marker=look.marker,
        markersize=4,
        color=look.color,
        linestyle=dash,
        linewidth=1.4,
        elinewidth=1,
        label=label,
    )


def _layer_axes(axes: Axes) -> None:
    axes.set(xlabel="Layer (0 = embedding)", ylabel="Test accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _accuracy_axis(axes)


def _legend_below(axes: Axes, **options: Any) -> None:
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, handletextpad=0.4, columnspacing=1, **options
    )


def _accuracy_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    style.percent_ticks(axes.yaxis)


def _error_bars(values: Sequence[MeanStd]) -> list[float] | None:
    """Return standard deviations; None if no network has several seeds."""
    return [each.std for each in values] if any(each.seeds > 1 for each in values) else None
