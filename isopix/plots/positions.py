"""Position embeddings drawn: a map of similarity for each of some positions, placed where the position is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from isopix.plots import style

SIDE = 5.2  # inches of all maps together, the longer side


@style.paper()
def maps(numbers: Mapping[str, Any]) -> Figure:
    """Cosine similarity of each position with all others (Vision Transformer, figure 7, centre)."""
    values = np.array(numbers["maps"], dtype=float)
    lines, columns, rows, cols = values.shape
    cell = SIDE / max(lines * rows / cols, columns)
    drawn = style.figure(lines * cell * rows / cols + 0.5, columns * cell + 1.2)
    engine: Any = drawn.get_layout_engine()
    engine.set(w_pad=0.015, h_pad=0.015, wspace=0.0, hspace=0.0)
    table: Any = drawn.subplots(lines, columns, squeeze=False)
    norm = Normalize(-1, 1)
    for line, column in np.ndindex(lines, columns):
        axes = table[line, column]
        axes.imshow(values[line, column], cmap=style.APART, norm=norm, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=style.FAINT)
        if line == lines - 1:
            axes.set_xlabel(str(numbers["cols"][column] + 1), fontsize=8)
        if column == 0:
            label = axes.set_ylabel(str(numbers["rows"][line] + 1), fontsize=8, rotation=0)
            label.set(ha="right", va="center")
    drawn.supxlabel("column of the position", fontsize=9)
    drawn.supylabel("row of the position", fontsize=9)
    bar = drawn.colorbar(ScalarMappable(norm, style.APART), ax=table, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label("cosine similarity")
    bar.outline.set_visible(False)
    return drawn
