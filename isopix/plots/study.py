"""A study of many networks: accuracy by loss, depth and layer (inductive biases, figures 4, 6 and 7)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from isopix.core.text import count_of
from isopix.plots import style
from isopix.plots.curves import spread_labels

ROW_HEIGHT = 2.1  # inches, of a row of panels
LEGEND_HEIGHT = 1.1  # inches
LABEL_HEIGHT = 0.55  # inches, of a title or an axis label


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
    untrained: MeanStd  # test accuracy of the untrained network's best layer


class PoolResults(NamedTuple):
    """The results of a study under one pool; accuracies of baselines by name."""

    pool: str
    trained: Sequence[TrialGroup]
    untrained: Sequence[TrialGroup]  # the same architectures before training
    baselines: Mapping[str, float]

    @property
    def encodings(self) -> list[str]:
        return style.ordered((each.encoding for each in self.trained), style.MARKERS)


@style.print_style
def plot_study_loss(pools: Sequence[PoolResults]) -> Figure:
    """Plot the best layer's accuracy against the loss: a row per pool, a column per encoding (figure 4)."""
    encodings, networks = pools[0].encodings, pools[0].trained
    figure = style.new_figure(len(pools) * ROW_HEIGHT + LEGEND_HEIGHT + LABEL_HEIGHT)
    panels = figure.subplots(len(pools), len(encodings), sharey="row", sharex=True, squeeze=False)
    for row, results in zip(panels, pools, strict=True):
        for axes, encoding in zip(row, encodings, strict=True):
            _losses(axes, [each for each in results.trained if each.encoding == encoding])
        _finish(row, f"Test accuracy,\n{style.display_name(results.pool)}", results.baselines)
    for axes, encoding in zip(panels[0], encodings, strict=True):
        axes.set_title(style.display_name(encoding))
    for axes in panels[-1]:
        axes.set_xlabel("Loss (nats per\nmasked sub-pixel)")
    depths = sorted({each.depth for each in networks})
    sizes = [_key(count_of(each, "block"), marker="o", markersize=style.marker_size(each)) for each in depths]
    _legends(figure, _block_keys(networks), sizes)
    return figure


@style.print_style
def plot_study_depth(results: PoolResults, block: str = "conv") -> Figure:
    """Plot accuracy of the best layer by depth, and of every layer for one block, by encoding (figure 6)."""
    depths = sorted({each.depth for each in results.trained})
    figure = style.new_figure(2 * (ROW_HEIGHT + LABEL_HEIGHT) + LEGEND_HEIGHT)
    panels = figure.subplots(2, len(results.encodings), sharey="row", sharex="row", squeeze=False)
    for upper, lower, encoding in zip(*panels, results.encodings, strict=True):
        networks = [each for each in results.trained if each.encoding == encoding]
        for name in style.block_order(each.block for each in networks):
            own = sorted((each for each in networks if each.block == name), key=lambda each: each.depth)
            for hollow in (True, False):
                values = [each.untrained if hollow else each.accuracy for each in own]
                look = style.marker_look(encoding, style.block_color(name), hollow=hollow)
                _curve(upper, [each.depth for each in own], values, "-", look)
        upper.set_title(style.display_name(encoding))
        upper.set(xlabel="Depth (blocks)", xticks=depths)
        for each, hollow in _trained_and_not(results):
            if (each.block, each.encoding) == (block, encoding):
                _layers(lower, each, style.marker_look(encoding, style.block_color(block), hollow=hollow))
        _layer_axis(lower)
    for row, label in zip(panels, ("best layer", style.display_name(block)), strict=True):
        _finish(row, f"Test accuracy,\n{label}", results.baselines)
    _legends(figure, _block_keys(results.trained), _dash_keys(depths))
    return figure


@style.print_style
def plot_study_layers(results: PoolResults, blocks: Sequence[str], max_depth: int) -> Figure:
    """Plot accuracy of every layer of the deepest networks, by encoding (row) and block (figure 7)."""
    encodings, trained = results.encodings, results.trained
    depths = {
        name: max(each.depth for each in trained if each.block == name and each.depth <= max_depth)
        for name in blocks
    }
    figure = style.new_figure(len(encodings) * (ROW_HEIGHT - 0.5) + LEGEND_HEIGHT + 2 * LABEL_HEIGHT)
    panels = figure.subplots(len(encodings), len(blocks), sharey=True, sharex="col", squeeze=False)
    for row, encoding in zip(panels, encodings, strict=True):
        for axes, architecture in zip(row, depths.items(), strict=True):
            _layers_by_encoding(axes, results, architecture, encoding)
    top = max(axes.dataLim.y1 for axes in panels.flat)
    for row, encoding in zip(panels, encodings, strict=True):
        _finish(row, f"Test accuracy,\n{style.display_name(encoding)}", results.baselines, top)
    for axes, (block, depth) in zip(panels[0], depths.items(), strict=True):
        name = style.wrap_title(style.display_name(block).capitalize())
        axes.set_title(f"{name}, {count_of(depth, 'block')}")
    for axes in panels[-1]:
        _layer_axis(axes)
    keys = [
        _key(
            style.display_name(each),
            linestyle="-",
            **style.marker_look(each, style.ENCODING_COLORS.get(each, style.MUTED_COLOR)),
        )
        for each in encodings
    ]
    pale = _key("pale: other encodings", linestyle="-", linewidth=1, alpha=0.35)
    _legends(figure, keys, _dash_keys(depths.values()), pale)
    return figure


def _layers_by_encoding(
    axes: Axes, results: PoolResults, architecture: tuple[str, int], encoding: str
) -> None:
    for each, hollow in _trained_and_not(results):
        color = style.ENCODING_COLORS.get(each.encoding, style.MUTED_COLOR)
        if (each.block, each.depth) != architecture:
            continue
        if each.encoding == encoding:
            _layers(axes, each, style.marker_look(encoding, color, hollow=hollow))
        elif not hollow:
            axes.plot([layer.mean for layer in each.layers], color=color, linewidth=1, alpha=0.35)


def _trained_and_not(results: PoolResults) -> list[tuple[TrialGroup, bool]]:
    """Return untrained networks, which are hollow, and trained ones, which lie above them."""
    return [*((each, True) for each in results.untrained), *((each, False) for each in results.trained)]


def _losses(axes: Axes, networks: Sequence[TrialGroup]) -> None:
    for each in networks:
        ends = [each.untrained.mean, each.accuracy.mean]
        axes.plot([each.loss.mean] * 2, ends, color=style.block_color(each.block), linewidth=0.7, alpha=0.35)
    for hollow in (True, False):
        for each in sorted(networks, key=lambda each: -each.depth):
            value = each.untrained if hollow else each.accuracy
            look: Any = style.marker_look(each.encoding, style.block_color(each.block), hollow=hollow)
            look |= {"linestyle": "none", "markersize": style.marker_size(each.depth), "elinewidth": 0.9}
            loss_error = None if hollow else _errors([each.loss])
            axes.errorbar(each.loss.mean, value.mean, xerr=loss_error, yerr=_errors([value]), **look)
    axes.margins(0.09)
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 4, 5, 10]))


def _layers(axes: Axes, network: TrialGroup, look: Mapping[str, Any]) -> None:
    _curve(axes, range(len(network.layers)), network.layers, style.DASHES.get(network.depth, "-"), look)


def _curve(
    axes: Axes, x: Sequence[int], values: Sequence[MeanStd], dash: Any, look: Mapping[str, Any]
) -> None:
    hollow = look["markerfacecolor"] == style.BACKGROUND
    sizes: Any = {"linewidth": 0.8, "markersize": 4} if hollow else {"linewidth": 1.5, "markersize": 5}
    means = [value.mean for value in values]
    axes.errorbar(x, means, yerr=_errors(values), linestyle=dash, elinewidth=0.9, **sizes, **look)


def _errors(values: Sequence[MeanStd]) -> list[float] | None:
    return [each.std for each in values] if any(each.seeds > 1 for each in values) else None


def _layer_axis(axes: Axes) -> None:
    axes.set_xlabel("Layer\n(0 = embedding)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _finish(row: NDArray[Any], label: str, baselines: Mapping[str, float], top: float = 0.0) -> None:
    top = max([top, *(axes.dataLim.y1 for axes in row), *baselines.values()])
    row[0].set(ylabel=label, ylim=(0, 1.05 * top))
    row[0].yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 4, 5, 10]))
    style.percent_ticks(row[0].yaxis)
    points = 72 * (ROW_HEIGHT - LABEL_HEIGHT)  # of the panel's height
    heights = [value / (1.05 * top) for value in baselines.values()]
    for axes in row:
        for value in baselines.values():
            axes.axhline(value, color=style.MUTED_COLOR, linewidth=0.9, zorder=1)
    last: Any = {"transform": row[-1].transAxes}
    places = spread_labels(heights, 1.15 * style.PRINT_SIZE / points)
    look: Any = {"va": "center", "fontsize": style.PRINT_SIZE, "color": style.TEXT_COLOR, **last}
    for name, height, place in zip(baselines, heights, places, strict=True):
        row[-1].text(1.08, place, style.display_name(name), **look)
        leader: Any = {**last, "color": style.MUTED_COLOR, "clip_on": False, "linewidth": 0.7}
        row[-1].plot([1.005, 1.065], [height, place], **leader)


def _key(label: str, **look: Any) -> Line2D:
    return Line2D([], [], label=label, **{"linestyle": "none", "color": style.TEXT_COLOR, **look})


def _block_keys(networks: Sequence[TrialGroup]) -> list[Artist]:
    names, look = style.block_order(each.block for each in networks), {"linestyle": "-", "linewidth": 5}
    return [_key(style.display_name(each), color=style.block_color(each), **look) for each in names]


def _dash_keys(depths: Iterable[int]) -> list[Artist]:
    return [
        _key(f"every layer, {count_of(each, 'block')}", linestyle=style.DASHES.get(each, "-"), linewidth=1.5)
        for each in sorted(set(depths))
    ]


def _legends(figure: Figure, left: Sequence[Artist], right: Sequence[Artist], *last: Artist) -> None:
    hollow = _key("hollow: untrained", marker="o", markerfacecolor=style.BACKGROUND, markersize=5)
    look: Any = {"handletextpad": 0.6, "labelspacing": 0.35, "handlelength": 1.8}
    figure.legend(handles=left, loc="outside lower left", **look)
    figure.legend(handles=[*right, hollow, *last], loc="outside lower right", **look)
