"""Sheets of pictures with labels: a line for each class or group of images, and histograms of their sizes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from PIL import Image, ImageDraw

from isopix.plots import style
from isopix.plots.images import FRAME_COLOR, write_text

CELL, GAP, MARGIN = 96, 6, 16  # pixels: the side of the place of a picture
LABEL_WIDTH, COLUMNS = 220, 10  # of a sheet of classes
FONT_SIZE, SMALL = 15, 12
TOP = MARGIN + FONT_SIZE + 2 * GAP
BACKGROUND, TEXT, MUTED = (255, 255, 255), (0x22, 0x25, 0x2A), (0x5A, 0x60, 0x68)
MAX_BINS = 40
WIDE_RANGE = 10  # of the largest to the smallest size, from which the axes are logarithmic


class SheetLine(NamedTuple):
    """Pictures of at most `CELL` pixels a side, under a title; the note below it is smaller."""

    title: str
    note: str
    pictures: Sequence[Image.Image]


def plot_contact_sheet(title: str, lines: Sequence[SheetLine]) -> Image.Image:
    """Return the sheet: each line with its label on the left, if any, broken after `COLUMNS` pictures."""
    left = MARGIN + (LABEL_WIDTH if any(line.title for line in lines) else 0)
    rows = [max(1, -(-len(line.pictures) // COLUMNS)) for line in lines]
    columns = min(COLUMNS, max(3, *(len(line.pictures) for line in lines)))
    width = left + columns * (CELL + GAP) - GAP + MARGIN
    sheet, draw = _new_sheet(title, width, TOP + sum(rows) * (CELL + GAP) - GAP + MARGIN)
    top = TOP
    for line, count in zip(lines, rows, strict=True):
        middle, label_width = top + CELL // 2, LABEL_WIDTH - 2 * GAP
        place = (MARGIN, middle - FONT_SIZE - 2)
        write_text(draw, place, line.title, label_width, size=FONT_SIZE, color=TEXT, keep="end")
        write_text(draw, (MARGIN, middle + 4), line.note, label_width, size=SMALL, color=MUTED)
        for i, picture in enumerate(line.pictures):
            corner = (left + i % COLUMNS * (CELL + GAP), top + i // COLUMNS * (CELL + GAP))
            _place(sheet, draw, picture, corner)
        top += count * (CELL + GAP)
    return sheet


@style.figure_style()
def plot_image_sizes(sizes: Mapping[tuple[int, int], int]) -> Figure:
    """Plot the numbers of images by width and by height, in pixels, from those of each (width, height)."""
    figure = style.new_figure(2.6)
    panels, counts = figure.subplots(1, 2, sharey=True), list(sizes.values())
    for axes, name, color, values in zip(
        panels, ("Width", "Height"), style.COLORS, zip(*sizes, strict=True), strict=False
    ):
        low, high = min(values), max(values)
        if high > WIDE_RANGE * low:
            edges = np.geomspace(0.95 * low, 1.05 * high, MAX_BINS)
            axes.set(xscale="log", yscale="log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        else:
            width = max(1, -(-(high - low + 1) // MAX_BINS))
            edges = np.arange(low, high + width + 1, width) - 0.5
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.hist(values, edges, weights=counts, color=color, edgecolor=style.BACKGROUND, linewidth=0.5)
        if low == high:
            axes.set(xlim=(low - 5, high + 5), xticks=[low])
        axes.set_xlabel(f"{name} (pixels)")
    panels[0].set_ylabel("Images")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    if panels[0].get_yscale() == "log":
        panels[0].set_ylim(bottom=0.5)  # a single image has a bar, too
    else:
        panels[0].yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def _new_sheet(title: str, width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    sheet = Image.new("RGB", (width, height), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    write_text(draw, (MARGIN, MARGIN - GAP), title, width - 2 * MARGIN, size=FONT_SIZE, color=TEXT)
    return sheet, draw


def _place(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, picture: Image.Image, corner: tuple[int, int]
) -> None:
    x = corner[0] + (CELL - picture.width) // 2
    y = corner[1] + (CELL - picture.height) // 2
    sheet.paste(picture, (x, y))
    draw.rectangle((x - 1, y - 1, x + picture.width, y + picture.height), outline=FRAME_COLOR)
