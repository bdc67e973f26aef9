"""Results of a study of many networks: accuracy against loss, by depth and by layer (inductive biases of
small isotropic nets, figures 4, 6 and 7).

The marks are those of `study_marks`. Error bars are standard deviations over seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import study_marks, style
from isopix.plots.figure_data import DECORATION

ROW_HEIGHT = 2.1  # inches, of a row of panels
LEGEND_HEIGHT = 1.1  # inches
LABEL_HEIGHT = 0.55  # inches, of a title or an axis label
LOSS_LABEL = "Loss (nats per\nmasked sub-pixel)"
LAYER_LABEL = "Layer\n(0 = embedding)"


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


@style.print_style()
def plot_study_loss(pools: Sequence[PoolResults]) -> Figure:
    """Plot the best layer's accuracy against the loss: a row per pool, a column per encoding (figure 4)."""
    encodings = _encodings(pools[0])
    figure = style.new_figure(len(pools) * ROW_HEIGHT + LEGEND_HEIGHT + LABEL_HEIGHT)
    panels = figure.subplots(len(pools), len(encodings), sharey="row", sharex=True, squeeze=False)
    for row, results in zip(panels, pools, strict=True):
        for axes, encoding in zip(row, encodings, strict=True):
            points = [point for point in results.trained if point.encoding == encoding]
            for point in points:
                _stem(axes, point)
            for hollow in (True, False):
                for point in sorted(points, key=lambda point: -point.depth):
                    _point(axes, point, hollow=hollow)
            axes.margins(0.09)
            axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 4, 5, 10]))
        _finish(list(row), f"Test accuracy,\n{study_marks.display_name(results.pool)}", results.baselines)
    for axes, encoding in zip(panels[0], encodings, strict=True):
        axes.set_title(study_marks.display_name(encoding))
    for axes in panels[-1]:
        axes.set_xlabel(LOSS_LABEL)
    every = pools[0].trained
    sizes = study_marks.size_keys(point.depth for point in every)
    study_marks.legends(figure, [study_marks.block_keys(point.block for point in every), sizes])
    style.enlarge_ticks(figure)
    return figure


@style.print_style()
def plot_study_depth(results: PoolResults, block: str = "conv") -> Figure:
    """Plot the accuracy of the best layer by depth, and that of every layer of the networks of one block, a
    column per encoding (figure 6).
    """
    encodings = _encodings(results)
    figure = style.new_figure(2 * (ROW_HEIGHT + LABEL_HEIGHT) + LEGEND_HEIGHT)
    panels = figure.subplots(2, len(encodings), sharey="row", sharex="row", squeeze=False)
    depths = sorted({point.depth for point in results.trained})
    for upper, lower, encoding in zip(*panels, encodings, strict=True):
        _depth_curves(upper, [point for point in results.trained if point.encoding == encoding])
        upper.set_title(study_marks.display_name(encoding))
        upper.set(xlabel="Depth (blocks)", xticks=depths)
        for point, hollow in _trained_and_not(results):
            if (point.block, point.encoding) == (block, encoding):
                _layers(lower, point, study_marks.block_color(block), hollow=hollow)
        _layer_axis(lower)
    for row, label in zip(panels, ("best layer", study_marks.display_name(block)), strict=True):
        _finish(list(row), f"Test accuracy,\n{label}", results.baselines)
    blocks = study_marks.block_keys(point.block for point in results.trained)
    study_marks.legends(figure, [blocks, study_marks.dash_keys(depths)])
    style.enlarge_ticks(figure)
    return figure


@style.print_style()
def plot_study_layers(results: PoolResults, blocks: Sequence[str], max_depth: int) -> Figure:
    """Plot the accuracy of every layer of the deepest networks of each block up to `max_depth`: a row per
    encoding, a column per block; the trained networks of the other encodings are pale (figure 7).
    """
    encodings = _encodings(results)
    figure = style.new_figure(len(encodings) * (ROW_HEIGHT - 0.5) + LEGEND_HEIGHT + 2 * LABEL_HEIGHT)
    panels = figure.subplots(len(encodings), len(blocks), sharey=True, sharex="col", squeeze=False)
    depths = {block: deepest(results.trained, block, max_depth) for block in blocks}
    for row, encoding in zip(panels, encodings, strict=True):
        for axes, (block, depth) in zip(row, depths.items(), strict=True):
            _layers_by_encoding(axes, results, (block, depth), encoding)
    for row, encoding in zip(panels, encodings, strict=True):
        _finish(
            list(row), f"Test accuracy,\n{study_marks.display_name(encoding)}", results.baselines, panels.flat
        )
    for axes, (block, depth) in zip(panels[0], depths.items(), strict=True):
        name = style.wrap_title(study_marks.display_name(block).capitalize())
        axes.set_title(f"{name}, {study_marks.depth_text(depth)}")
    for axes in panels[-1]:
        _layer_axis(axes)
    keys = study_marks.encoding_keys(encodings, colored=True)
    study_marks.legends(figure, [keys, [*study_marks.dash_keys(depths.values()), study_marks.pale_key()]])
    style.enlarge_ticks(figure)
    return figure


def _encodings(results: PoolResults) -> list[str]:
    return study_marks.ordered((point.encoding for point in results.trained), study_marks.MARKERS)


def _trained_and_not(results: PoolResults) -> list[tuple[TrialGroup, bool]]:
    """Return untrained networks, which are hollow, and trained ones, which lie above them."""
    return [*((point, True) for point in results.untrained), *((point, False) for point in results.trained)]


def deepest(points: Sequence[TrialGroup], block: str, max_depth: int) -> int:
    """Return the largest depth of the networks of a block, up to `max_depth`."""
    return max(point.depth for point in points if point.block == block and point.depth <= max_depth)


def _name(point: TrialGroup) -> str:
    return f"{point.block}-{point.encoding}-{point.depth}"


def _stem(axes: Axes, point: TrialGroup) -> None:
    """Connect a network with itself before training."""
    ends = [point.untrained.mean, point.accuracy.mean]
    look: Any = {"linewidth": 0.7, "alpha": 0.35, "label": DECORATION}
    axes.plot([point.loss.mean] * 2, ends, color=study_marks.block_color(point.block), **look)


def _point(axes: Axes, point: TrialGroup, *, hollow: bool) -> None:
    accuracy = point.untrained if hollow else point.accuracy
    axes.errorbar(
        [point.loss.mean],
        [accuracy.mean],
        xerr=None if hollow else _error_bars([point.loss]),
        yerr=_error_bars([accuracy]),
        linestyle="none",
        markersize=study_marks.marker_size(point.depth),
        elinewidth=0.9,
        label=_name(point) + " untrained" * hollow,
        **study_marks.marker_look(point.encoding, study_marks.block_color(point.block), hollow=hollow),
    )


def _depth_curves(axes: Axes, points: Sequence[TrialGroup]) -> None:
    """Plot a line per block."""
    for block in study_marks.block_order(point.block for point in points):
        own = sorted((point for point in points if point.block == block), key=lambda point: point.depth)
        depths = [point.depth for point in own]
        for hollow in (True, False):
            values = [point.untrained if hollow else point.accuracy for point in own]
            _curve(
                axes,
                depths,
                values,
                own[0].encoding,
                study_marks.block_color(block),
                "-",
                hollow=hollow,
                label=block,
            )


def _layers(axes: Axes, point: TrialGroup, color: str, *, hollow: bool) -> None:
    dash = study_marks.DASHES.get(point.depth, "-")
    layers = range(len(point.layers))
    _curve(axes, layers, point.layers, point.encoding, color, dash, hollow=hollow, label=_name(point))


def _layers_by_encoding(
    axes: Axes, results: PoolResults, architecture: tuple[str, int], encoding: str
) -> None:
    """Plot networks of this block and depth with one encoding, and pale trained ones with the others."""
    for point, hollow in _trained_and_not(results):
        color = study_marks.ENCODING_COLORS.get(point.encoding, style.MUTED_COLOR)
        if (point.block, point.depth) != architecture:
            continue
        if point.encoding == encoding:
            _layers(axes, point, color, hollow=hollow)
        elif not hollow:
            look: Any = {"linewidth": 1, "alpha": 0.35, "label": f"_{_name(point)}"}
            axes.plot([layer.mean for layer in point.layers], color=color, **look)


def _curve(  # noqa: PLR0913  every mark of a line
    axes: Axes,
    x: Sequence[int],
    values: Sequence[MeanStd],
    encoding: str,
    color: str,
    dash: Any,
    *,
    hollow: bool,
    label: str,
) -> None:
    axes.errorbar(
        x,
        [value.mean for value in values],
        yerr=_error_bars(values),
        linestyle=dash,
        linewidth=0.8 if hollow else 1.5,
        elinewidth=0.9,
        markersize=4 if hollow else 5,
        label=label + " untrained" * hollow,
        **study_marks.marker_look(encoding, color, hollow=hollow),
    )


def _finish(
    row: Sequence[Axes],
    ylabel: str,
    baselines: Mapping[str, float],
    shared: Iterable[Axes] | None = None,
) -> None:
    """Format the axis of accuracies of a row, from 0 to the largest network or baseline of the panels that
    share it, and draw the baselines.
    """
    tops = [axes.dataLim.y1 for axes in (row if shared is None else shared)]
    row[0].set_ylabel(ylabel)
    row[0].set_ylim(0, 1.05 * max([*tops, *baselines.values()]))
    row[0].yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 4, 5, 10]))
    style.percent_ticks(row[0].yaxis)
    study_marks.draw_baselines(row, baselines, ROW_HEIGHT - LABEL_HEIGHT)


def _layer_axis(axes: Axes) -> None:
    axes.set_xlabel(LAYER_LABEL)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _error_bars(values: Sequence[MeanStd]) -> list[float] | None:
    """Return standard deviations; None if no network has several seeds."""
    return [each.std for each in values] if any(each.seeds > 1 for each in values) else None
