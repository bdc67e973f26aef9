"""Encodings drawn: which of the 256 levels of a channel look alike (inductive biases of small isotropic nets,
figures 2, 3 and 5).
"""

from collections.abc import Mapping
from itertools import zip_longest

from matplotlib.figure import Figure

from isopix.analysis.similarity import Encoding
from isopix.plots import style

ACROSS = 4  # pictures in a line
MAP = "RdBu_r"  # -1 blue, 0 white, 1 red: told apart with any colour vision, and nothing alike stays blank
HEAD = 0.75  # inches above a picture and below it: its name, and two numbers


@style.paper()
def similarities(encodings: Mapping[str, Encoding]) -> Figure:
    """A picture for each encoding, by name: the similarity of level (row) and level (column), 0 at the top
    left as in the paper; below it distance preservation and effective rank.
    """
    across = min(ACROSS, len(encodings))
    lines = -(-len(encodings) // across)
    side = (style.WIDTH - 0.9) / ACROSS
    drawn = style.figure(lines * (side + HEAD), 0.9 + across * side)
    grid = drawn.subplots(lines, across, squeeze=False)
    shown = None
    for axes, item in zip_longest(grid.flat, encodings.items()):
        if item is None:
            axes.set_axis_off()
            continue
        name, encoding = item
        last = len(encoding.similarity) - 1
        shown = axes.imshow(encoding.similarity, cmap=MAP, vmin=-1, vmax=1, interpolation="none")
        axes.set_title(style.narrow(name), fontsize=9)
        axes.set_xlabel(f"distance kept {encoding.preservation:.2f}\nrank {encoding.rank:.0f}", fontsize=8)
        axes.set(xticks=[0, last], yticks=[0, last])
        axes.grid(visible=False)
    assert shown is not None, "at least one encoding"
    bar = drawn.colorbar(shown, ax=grid, label="similarity", ticks=[-1, 0, 1], shrink=0.75, aspect=18)
    bar.outline.set_visible(False)
    return drawn
