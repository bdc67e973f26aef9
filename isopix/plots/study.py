"""A study of many networks drawn: loss against accuracy, and accuracy by layer (inductive biases of small
isotropic nets, figures 4, 6 and 7). Bars are a standard deviation over seeds, where there are several.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from isopix.plots import style

HEIGHT = 3.3  # inches
MARKS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
NAMES = {
    "conv": "convolution",
    "transformer-1": "transformer, 1 head",
    "transformer-4": "transformer, 4 heads",
    "fourier": "Fourier",
}


class Spread(NamedTuple):
    """Mean and standard deviation (n - 1; 0 for one seed) over seeds."""

    mean: float
    std: float
    seeds: int


class TrialGroup(NamedTuple):
    """The trials of one architecture, over seeds."""

    block: str
    encoding: str
    depth: int
    loss: Spread
    accuracy: Spread  # test accuracy of the layer that validation chose
    layers: tuple[Spread, ...]  # test accuracy of each layer 0..L


class Look(NamedTuple):
    """How one sort of network is told from others: by colour, and by mark for who sees no colours."""

    colour: str
    mark: str


@style.paper()
def against_loss(groups: Sequence[TrialGroup]) -> Figure:
    """Accuracy of the best layer against loss, each network a point, marked by block and by encoding
    (figure 4).
    """
    drawn = style.figure(HEIGHT)
    left, right = drawn.subplots(1, 2, sharey=True)
    _scatter(left, groups, "block", lambda group: group.block)
    _scatter(right, groups, "encoding", lambda group: group.encoding)
    right.set_ylabel("")
    return drawn


@style.paper()
def by_depth(groups: Sequence[TrialGroup], block: str = "conv") -> Figure:
    """The same points marked by depth, and the accuracy of every layer of all networks of one block
    (figure 6).
    """
    drawn = style.figure(HEIGHT)
    left, right = drawn.subplots(1, 2)
    _scatter(left, groups, "depth", _depth)
    depths = _looks(groups, _depth)
    chosen = [group for group in groups if group.block == block]
    dashes = dict(zip(dict.fromkeys(group.encoding for group in chosen), cycle(DASHES), strict=False))
    for group in chosen:
        _line(right, group, depths[_depth(group)], dashes[group.encoding])
    right.set_title(f"{named(block)}, every layer")
    _layers(right)
    handles = [
        Line2D([], [], color=style.INK, linestyle=dash, label=named(name), linewidth=1.3)
        for name, dash in dashes.items()
    ]
    right.legend(handles=handles, loc="lower right")
    return drawn


@style.paper()
def by_layer(groups: Sequence[TrialGroup], blocks: Sequence[str] = ("mixer", "transformer-1")) -> Figure:
    """Accuracy of every layer by encoding, a panel for each block, of the deepest networks that each has
    (figure 7).
    """
    drawn = style.figure(HEIGHT)
    panels = drawn.subplots(1, len(blocks), sharey=True, squeeze=False)[0]
    looks = _looks(groups, lambda group: group.encoding)
    for axes, block in zip(panels, blocks, strict=True):
        own = [group for group in groups if group.block == block]
        depth = max(group.depth for group in own)
        for group in own:
            if group.depth == depth:
                _line(axes, group, looks[group.encoding], "-", named(group.encoding))
        axes.set_title(f"{named(block)}, {_depth(own[0]._replace(depth=depth))}")
        _layers(axes)
    for axes in panels[1:]:
        axes.set_ylabel("")
    panels[0].legend(loc="best")
    return drawn


def named(word: str) -> str:
    """A block or an encoding, as people call it."""
    return NAMES.get(word, word)


def _depth(group: TrialGroup) -> str:
    return f"{group.depth} block{'s' * (group.depth != 1)}"


def _looks(groups: Sequence[TrialGroup], sort: Callable[[TrialGroup], str]) -> Mapping[str, Look]:
    """Sorts in the order in which they come, depths from shallow to deep, so that pictures of the same groups
    agree.
    """
    ordered = sorted(groups, key=lambda group: group.depth) if sort is _depth else groups
    return {
        name: Look(colour, mark)
        for name, colour, mark in zip(
            dict.fromkeys(map(sort, ordered)), cycle(style.LINES), cycle(MARKS), strict=False
        )
    }


def _scatter(axes: Axes, groups: Sequence[TrialGroup], title: str, sort: Callable[[TrialGroup], str]) -> None:
    for name, look in _looks(groups, sort).items():
        own = [group for group in groups if sort(group) == name]
        axes.errorbar(
            [group.loss.mean for group in own],
            [group.accuracy.mean for group in own],
            xerr=_bars([group.loss for group in own]),
            yerr=_bars([group.accuracy for group in own]),
            fmt=look.mark,
            color=look.colour,
            markersize=5.5,
            markeredgecolor=style.PAPER,
            markeredgewidth=0.5,
            elinewidth=1,
            label=named(name),
        )
    axes.set_title(f"by {title}")
    axes.set(xlabel="loss, nats a hidden sub-pixel", ylabel="accuracy of the best layer")
    axes.margins(0.07)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _percent(axes)
    axes.legend(loc="best", handletextpad=0.2, labelspacing=0.3)


def _line(axes: Axes, group: TrialGroup, look: Look, dash: Any, label: str | None = None) -> None:
    axes.errorbar(
        range(len(group.layers)),
        [layer.mean for layer in group.layers],
        yerr=_bars(group.layers),
        marker=look.mark,
        markersize=4,
        color=look.colour,
        linestyle=dash,
        linewidth=1.4,
        elinewidth=1,
        label=label,
    )


def _layers(axes: Axes) -> None:
    axes.set(xlabel="layer (0 is the embedding)", ylabel="test accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _percent(axes)


def _percent(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))


def _bars(spreads: Sequence[Spread]) -> list[float] | None:
    """Standard deviations; None where nothing was repeated."""
    return [each.std for each in spreads] if any(each.seeds > 1 for each in spreads) else None
