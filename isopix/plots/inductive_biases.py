"""Biases drawn: how a network takes shifts and permutations by layer, and how far a change of one pixel
reaches.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from isopix.analysis.inductive_biases import HELD, Biases, Reach
from isopix.plots import style
from isopix.plots.study import MARKS, named

HEIGHT = 3.2  # inches
FLOOR = 1e-6  # share of a change below which a place of the map stays blank


@style.paper()
def by_layer(networks: Mapping[str, Biases]) -> Figure:
    """Of each network, by name and layer: error under translation, error under permutation, and the mean
    distance that a change reaches.
    """
    drawn = style.figure(HEIGHT)
    panels = drawn.subplots(1, 3)
    for (name, biases), colour, mark in zip(networks.items(), cycle(style.LINES), cycle(MARKS), strict=False):
        reach = [found.mean for found in biases.reach]
        for axes, values in zip(panels, (biases.translation, biases.order, reach), strict=True):
            axes.plot(values, color=colour, marker=mark, markersize=4, linewidth=1.4, label=named(name))
    titles = ("shifted pixels", "permuted pixels", "one changed pixel")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
        axes.set_xlabel("layer (0 is the embedding)")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axes in panels[:2]:
        axes.axhline(1, color=style.QUIET, linewidth=1, linestyle=":")
        axes.set_ylim(-0.04, 1.12)
    panels[0].set_ylabel("error (1: as any other place)")
    panels[2].set_ylabel("mean distance of the change, pixels")
    panels[2].set_ylim(bottom=-0.02 * panels[2].get_ylim()[1])
    drawn.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(5, len(networks))
    )
    return drawn


@style.paper()
def reach(last: Mapping[str, Reach], even: Reach) -> Figure:
    """How much of a change lies within so many pixels, by name of the network, for one layer of each; beside
    it a change that shows everywhere alike.
    """
    drawn = style.figure(HEIGHT, 0.7 * style.WIDTH)
    axes = drawn.add_subplot()
    for (name, found), colour, mark in zip(last.items(), cycle(style.LINES), cycle(MARKS), strict=False):
        label = f"{named(name)}: {100 * HELD:.0f} % within {found.radius}"
        _within(axes, found, color=colour, marker=mark, markersize=4, linewidth=1.4, label=label)
    _within(axes, even, color=style.QUIET, linewidth=1, linestyle=":", label="everywhere alike")
    axes.set(xlabel="distance, pixels", ylabel="share of the change within it", ylim=(0, 1.03))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f} %"))
    axes.legend(loc="lower right")
    return drawn


@style.paper()
def maps(last: Mapping[str, Reach]) -> Figure:
    """Where a change shows, by place from the changed pixel in the middle, on a logarithmic scale; blank
    where nothing of it shows.
    """
    names: Sequence[str] = list(last)
    drawn = style.figure(0.8 + (style.WIDTH - 0.9) / max(3, len(names)))
    panels = drawn.subplots(1, len(names), squeeze=False)[0]
    shown = None
    for axes, name in zip(panels, names, strict=True):
        shares = last[name].shares
        down, right = (side // 2 for side in shares.shape)
        shown = axes.imshow(
            np.ma.masked_less(shares, FLOOR),
            norm=LogNorm(FLOOR, 1),
            cmap="cividis",
            extent=(-right - 0.5, right + 0.5, down + 0.5, -down - 0.5),
            interpolation="none",
        )
        axes.set_title(style.narrow(named(name)), fontsize=9)
        axes.set(xticks=[-right, 0, right], yticks=[-down, 0, down])
        axes.grid(visible=False)
    assert shown is not None, "at least one network"
    drawn.colorbar(shown, ax=panels, label="share of the change", shrink=0.75, aspect=18)
    return drawn


def _within(axes: Axes, found: Reach, **look: Any) -> None:
    axes.plot(found.profile.cumsum(), **look)
