"""Similarity of position embeddings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from einops import rearrange
from matplotlib.figure import Figure

from isopix.plots import style

MOSAIC_SIDE = 5.2  # inches, of the longer side
GAP = 0.07  # between maps, as a fraction of a map's side


@style.figure_style()
def plot_position_similarity(numbers: Mapping[str, Any]) -> Figure:
    """Plot the cosine similarity of positions to all others, each map at its position (Vision Transformer,
    figure 7, center).
    """
    maps = np.array(numbers["maps"], dtype=float)
    map_rows, map_cols, rows, cols = maps.shape
    gap = max(1, round(GAP * max(rows, cols)))
    padded = np.pad(maps, ((0, 0), (0, 0), (0, gap), (0, gap)), constant_values=np.nan)
    mosaic = rearrange(padded, "r c h w -> (r h) (c w)")[:-gap, :-gap]
    height, width = mosaic.shape
    scale = MOSAIC_SIDE / max(height, width)
    figure = style.new_figure(height * scale + 0.5, width * scale + 1.5)
    axes = figure.add_subplot()
    image = axes.imshow(mosaic, cmap=style.DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks((np.arange(map_cols) + 0.5) * (cols + gap) - gap / 2 - 0.5, numbers["cols"])
    axes.set_yticks((np.arange(map_rows) + 0.5) * (rows + gap) - gap / 2 - 0.5, numbers["rows"])
    axes.set(xlabel="Column of the position", ylabel="Row of the position")
    bar = figure.colorbar(image, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label("Cosine similarity")
    bar.outline.set_visible(False)
    return figure
