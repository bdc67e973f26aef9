"""A check of figures for print: no small text, none outside the page, a label at every numbered axis; and
a name for every series in the table of their numbers.
"""

import re

from matplotlib.figure import Figure
from matplotlib.text import Text

from isopix.plots import style
from isopix.plots.figure_data import figure_csv

HYPHEN = re.compile(r"(?<![\w{.])-[\d.]")  # as a minus; that of mathematics is set as one
UNNAMED = re.compile(r",series \d+,")
NUMBER = re.compile(r"[−\d.]+( %)?")


def check_readable(figure: Figure) -> None:
    """Fail for text below the size of print, "-" as a minus, text off the page, an axis without label, or a
    series without a name.
    """
    assert not UNNAMED.findall(figure_csv(figure))
    figure.canvas.draw()
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        content = text.get_text()
        if content.strip() and text.get_visible():
            assert text.get_fontsize() >= style.PRINT_SIZE, content
            assert not HYPHEN.search(content), content
    for text in _text_but_ticks(figure):
        box = text.get_window_extent()
        inside = (
            box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
        )
        assert inside or not text.get_text(), text.get_text()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            labels = [label for tick in axis.get_major_ticks() for label in (tick.label1, tick.label2)]
            texts = [label.get_text() for label in labels if label.get_visible()]
            numbered = axis.get_visible() and axes.axison and any(map(NUMBER.fullmatch, texts))
            assert axis.get_label_text() or not numbered, (axes.get_title("left"), texts)


def _text_but_ticks(figure: Figure) -> list[Text]:
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    labels = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label, *axes.texts)]
    return [*legends, *labels]
