"""Results of a study of many networks: accuracy against loss, by depth and by layer (inductive biases of
small isotropic nets, figures 4, 6 and 7).

The marks are those of `study_marks`. Error bars are standard deviations over seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isopix.plots import study_marks, style

HEIGHT = 4.2  # inches, of figure 4
ROW_HEIGHT = 2.3  # inches, of a row of panels
LEGEND_HEIGHT = 1.0  # inches
POINTS = 72  # per inch
LABEL_GAP = 10.5  # points between the labels of two baselines
LOSS_LABEL = "Validation loss\n(nats per masked sub-pixel)"


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


@style.figure_style()
def plot_study_loss(pools: Sequence[PoolResults]) -> Figure:
    """Plot the accuracy of the best layer against the loss, a panel per pool (figure 4)."""
    figure = style.new_figure(HEIGHT)
    panels = figure.subplots(1, len(pools), sharey=True, squeeze=False)[0]
    for axes, results in zip(panels, pools, strict=True):
        for point in results.trained:
            _stem(axes, point)
        large_first = sorted(results.trained, key=lambda point: -point.depth)
        for hollow in (True, False):
            for point in large_first:
                _point(axes, point, hollow=hollow)
        axes.set_title(study_marks.display_name(results.pool).capitalize())
        axes.set_xlabel(LOSS_LABEL)
        axes.margins(0.07)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _finish(
        list(panels),
        "Test accuracy, best layer",
        [each for results in pools for each in results.baselines.values()],
    )
    for axes, results in zip(panels, pools, strict=True):
        _baselines(axes, results.baselines, HEIGHT - LEGEND_HEIGHT - 0.7)
    every = pools[0].trained
    keys = study_marks.size_keys(point.depth for point in every)
    study_marks.legends(figure, [*_block_and_encoding_keys(every), keys])
    return figure


@style.figure_style()
def plot_study_depth(results: PoolResults, block: str = "conv") -> Figure:
    """Plot the accuracy of the best layer by depth, and that of every layer of the networks of one block, a
    column per encoding (figure 6).
    """
    encodings = study_marks.ordered((point.encoding for point in results.trained), study_marks.MARKERS)
    figure = style.new_figure(2 * ROW_HEIGHT + LEGEND_HEIGHT)
    panels = figure.subplots(2, len(encodings), sharey="row", sharex="row", squeeze=False)
    depths = sorted({point.depth for point in results.trained})
    for upper, lower, encoding in zip(*panels, encodings, strict=True):
        _depth_curves(upper, [point for point in results.trained if point.encoding == encoding])
        upper.set_title(study_marks.display_name(encoding))
        upper.set(xlabel="Depth (blocks)", xticks=depths)
        for groups, hollow in ((results.untrained, True), (results.trained, False)):
            for point in groups:
                if (point.block, point.encoding) == (block, encoding):
                    _layers(
                        lower,
                        point,
                        study_marks.block_color(block),
                        study_marks.DASHES.get(point.depth, "-"),
                        hollow=hollow,
                    )
        lower.set_title(f"All layers, {study_marks.display_name(block)}", fontweight="normal", fontsize=9)
        _layer_axis(lower)
    for row, label in zip(panels, ("Test accuracy, best layer", "Test accuracy"), strict=True):
        _finish(list(row), label, results.baselines.values())
        _baselines(row[-1], results.baselines, ROW_HEIGHT - 0.8, row)
    keys = study_marks.dash_keys(depths)
    study_marks.legends(figure, [*_block_and_encoding_keys(results.trained), keys])
    return figure


@style.figure_style()
def plot_study_layers(pools: Sequence[PoolResults], blocks: Sequence[str], max_depth: int) -> Figure:
    """Plot the accuracy of every layer by encoding, of the deepest networks of each block up to `max_depth`:
    a row per pool, a column per block (figure 7).
    """
    figure = style.new_figure(len(pools) * ROW_HEIGHT + LEGEND_HEIGHT - 0.2)
    panels = figure.subplots(len(pools), len(blocks), sharey="row", sharex="col", squeeze=False)
    for row, results in zip(panels, pools, strict=True):
        for axes, block in zip(row, blocks, strict=True):
            depth = deepest(results.trained, block, max_depth)
            for groups, hollow in ((results.untrained, True), (results.trained, False)):
                for point in groups:
                    if (point.block, point.depth) == (block, depth):
                        color = study_marks.ENCODING_COLORS.get(point.encoding, style.MUTED_COLOR)
                        _layers(axes, point, color, study_marks.DASHES.get(depth, "-"), hollow=hollow)
            _layer_axis(axes)
        _finish(
            list(row), f"Test accuracy,\n{study_marks.display_name(results.pool)}", results.baselines.values()
        )
        _baselines(row[-1], results.baselines, ROW_HEIGHT - 0.5, row)
    for axes in panels[:-1].flat:
        axes.set_xlabel("")
    for axes, block in zip(panels[0], blocks, strict=True):
        depth = deepest(pools[0].trained, block, max_depth)
        name = study_marks.display_name(block).capitalize()
        name = style.wrap_title(name) if len(blocks) > 2 else name  # narrow panels
        axes.set_title(f"{name}, {study_marks.depth_text(depth)}")
    shown = [point for point in pools[0].trained if point.block in blocks]
    depths = {deepest(shown, block, max_depth) for block in blocks}
    keys = study_marks.encoding_keys([point.encoding for point in shown], colored=True)
    study_marks.legends(figure, [keys, study_marks.dash_keys(depths)])
    return figure


def deepest(points: Sequence[TrialGroup], block: str, max_depth: int) -> int:
    """Return the largest depth of the networks of a block, up to `max_depth`."""
    return max(point.depth for point in points if point.block == block and point.depth <= max_depth)


def _stem(axes: Axes, point: TrialGroup) -> None:
    """Connect a network with itself before training."""
    ends = [point.untrained.mean, point.accuracy.mean]
    axes.plot(
        [point.loss.mean] * 2, ends, color=study_marks.block_color(point.block), linewidth=0.7, alpha=0.35
    )


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
        label=f"{point.block}-{point.encoding}-{point.depth}" + " untrained" * hollow,
        **study_marks.marker_look(point.encoding, study_marks.block_color(point.block), hollow=hollow),
    )


def _depth_curves(axes: Axes, points: Sequence[TrialGroup]) -> None:
    """Plot a line per block."""
    for block in dict.fromkeys(point.block for point in points):
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


def _layers(axes: Axes, point: TrialGroup, color: str, dash: Any, *, hollow: bool) -> None:
    label = f"{point.block}-{point.encoding}-{point.depth}"
    layers = range(len(point.layers))
    _curve(axes, layers, point.layers, point.encoding, color, dash, hollow=hollow, label=label)


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


def _baselines(
    axes: Axes, baselines: Mapping[str, float], height: float, row: Iterable[Axes] | None = None
) -> None:
    """Draw a line at each baseline in a row of panels, labeled to the right of one whose height in inches is
    about `height`.
    """
    for each in (axes,) if row is None else row:
        for value in baselines.values():
            each.axhline(value, color=style.MUTED_COLOR, linewidth=0.9, zorder=1)
    bottom, top = axes.get_ylim()
    ordered = sorted(baselines.items(), key=lambda item: item[1])
    places = _spread([(value - bottom) / (top - bottom) for _, value in ordered], LABEL_GAP / POINTS / height)
    for (name, _), place in zip(ordered, places, strict=True):
        axes.text(
            1.02, place, name, transform=axes.transAxes, fontsize=8, color=style.TEXT_COLOR, va="center"
        )


def _spread(places: list[float], gap: float) -> list[float]:
    """Move ascending places apart until neighbors have the gap."""
    for _ in range(50):
        for i in range(len(places) - 1):
            missing = max(0.0, gap - (places[i + 1] - places[i])) / 2
            places[i], places[i + 1] = places[i] - missing, places[i + 1] + missing
    return places


def _finish(row: Sequence[Axes], ylabel: str, baselines: Iterable[float]) -> None:
    """Format the shared axis of accuracies, from 0 to the largest network or baseline."""
    row[0].set_ylabel(ylabel)
    row[0].set_ylim(0, 1.04 * max([*(axes.dataLim.y1 for axes in row), *baselines]))
    row[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    style.percent_ticks(row[0].yaxis)


def _layer_axis(axes: Axes) -> None:
    axes.set_xlabel("Layer (0 = embedding)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _block_and_encoding_keys(points: Sequence[TrialGroup]) -> list[list[Artist]]:
    return [
        study_marks.block_keys(point.block for point in points),
        study_marks.encoding_keys(point.encoding for point in points),
    ]


def _error_bars(values: Sequence[MeanStd]) -> list[float] | None:
    """Return standard deviations; None if no network has several seeds."""
    return [each.std for each in values] if any(each.seeds > 1 for each in values) else None
