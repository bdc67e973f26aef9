"""What a figure shows, read back from matplotlib, and a check of figures for print."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from isopix.plots import style

HYPHEN = re.compile(r"(?<![\w{.])-[\d.]")  # as a minus; that of mathematics is set as one


def drawn(axes: Axes) -> list[Any]:
    """The heights of lines, ends of error bars, dots and bars, and the values of images, each a list."""
    found = [np.asarray(line.get_ydata(), dtype=float).tolist() for line in axes.lines]
    for each in axes.collections:
        segments = each.get_segments() if isinstance(each, LineCollection) else [each.get_offsets()]
        found += [np.asarray(part)[:, 1].tolist() for part in segments]
    found += [
        np.ma.filled(np.ma.asarray(each.get_array(), dtype=float), np.nan).tolist() for each in axes.images
    ]
    return found + [[each.get_y() + each.get_height()] for each in axes.patches]


def shows(axes: Axes, expected: Any) -> bool:
    """Whether these numbers are drawn in a panel."""
    wanted = np.asarray(expected, dtype=float)
    same_shape = [np.asarray(each) for each in drawn(axes) if np.shape(each) == wanted.shape]
    return any(np.allclose(each, wanted, equal_nan=True) for each in same_shape)


def texts(figure: Figure, panel: int = 0) -> list[str]:
    """The texts in a panel."""
    return [text.get_text() for text in figure.axes[panel].texts]


def legend_texts(figure: Figure) -> list[str]:
    """The texts of all legends."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def check_readable(figure: Figure) -> None:
    """Fail for text below the size of print, "-" as a minus, and text off the page."""
    figure.canvas.draw()
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        content = text.get_text()
        if content.strip() and text.get_visible():
            assert text.get_fontsize() >= style.PRINT_SIZE, content
            assert not HYPHEN.search(content), content
    labels = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label, *axes.texts)]
    for text in (*labels, *(text for legend in figure.legends for text in legend.get_texts())):
        box, page = text.get_window_extent(), figure.bbox
        inside = min(box.x0, box.y0) >= -1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1
        assert inside or not text.get_text(), text.get_text()
