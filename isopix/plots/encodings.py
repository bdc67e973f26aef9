"""Similarity of pixel-value embeddings (inductive biases of small isotropic nets, figures 2, 3 and 5)."""

from collections.abc import Mapping
from itertools import zip_longest

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from isopix.plots import style

SimilarityMatrix = Float[np.ndarray, "K K"]

PANELS_PER_ROW = 4
COLORMAP = "RdBu_r"  # color-blind safe: -1 is blue, 0 white, 1 red
TEXT_HEIGHT = 0.75  # inches for the title and the label of a panel


@style.figure_style()
def plot_level_similarity(encodings: Mapping[str, tuple[SimilarityMatrix, float, float]]) -> Figure:
    """Plot the similarity of each pair of levels of encodings by name, with level 0 at the top left as in the
    paper, and below it distance preservation and effective rank.
    """
    cols = min(PANELS_PER_ROW, len(encodings))
    rows = -(-len(encodings) // cols)
    side = (style.PAGE_WIDTH - 0.9) / PANELS_PER_ROW
    figure = style.new_figure(rows * (side + TEXT_HEIGHT), 0.9 + cols * side)
    panels = figure.subplots(rows, cols, squeeze=False)
    image = None
    for axes, item in zip_longest(panels.flat, encodings.items()):
        if item is None:
            axes.set_axis_off()
            continue
        name, (similarity, distance_preservation, effective_rank) = item
        last = len(similarity) - 1
        image = axes.imshow(similarity, cmap=COLORMAP, vmin=-1, vmax=1, interpolation="none")
        axes.set_title(style.wrap_title(name), fontsize=9)
        axes.set_xlabel(
            f"distance preservation {distance_preservation:.2f}\neffective rank {effective_rank:.0f}",
            fontsize=7,
        )
        axes.set(xticks=[0, last], yticks=[0, last])
        axes.grid(visible=False)
    assert image is not None, "at least one encoding"
    bar = figure.colorbar(image, ax=panels, label="Similarity", ticks=[-1, 0, 1], shrink=0.75, aspect=18)
    bar.outline.set_visible(False)
    return figure
