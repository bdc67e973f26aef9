"""Position embeddings drawn: a map of similarity for each of some positions, placed where the position is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from einops import rearrange
from matplotlib.figure import Figure

from isopix.plots import style

SIDE = 5.2  # inches of all maps together, the longer side
GAP = 0.07  # of a map's side, between two


@style.paper()
def maps(numbers: Mapping[str, Any]) -> Figure:
    """Cosine similarity of each position with all others (Vision Transformer, figure 7, centre)."""
    values = np.array(numbers["maps"], dtype=float)
    lines, columns, rows, cols = values.shape
    gap = max(1, round(GAP * max(rows, cols)))
    padded = np.pad(values, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    mosaic = rearrange(padded, "l c h w -> (l h) (c w)")[:-gap, :-gap]
    high, wide = mosaic.shape
    scale = SIDE / max(high, wide)
    drawn = style.figure(high * scale + 0.5, wide * scale + 1.5)
    axes = drawn.add_subplot()
    shown = axes.imshow(mosaic, cmap=style.APART, vmin=-1, vmax=1, interpolation="nearest")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks((np.arange(columns) + 0.5) * (cols + gap) - gap / 2 - 0.5, numbers["cols"])
    axes.set_yticks((np.arange(lines) + 0.5) * (rows + gap) - gap / 2 - 0.5, numbers["rows"])
    axes.set(xlabel="column of the position", ylabel="row of the position")
    bar = drawn.colorbar(shown, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label("cosine similarity")
    bar.outline.set_visible(False)
    return drawn
