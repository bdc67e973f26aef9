"""Sheets of pictures with labels: a line for each class, pairs of images, and histograms of their sizes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image, ImageDraw

from isopix.core.types import Images
from isopix.plots import style
from isopix.plots.images import FRAME_COLOR, fitted_text, load_font

CELL, GAP, MARGIN = 96, 6, 16  # pixels: the side of the place of a picture
LABEL_WIDTH, COLUMNS = 220, 10  # of a sheet of classes
PAIR_COLUMNS, GUTTER = 5, 28  # pairs side by side, and pixels between them
PAIR_WIDTH = 2 * CELL + GAP
FONT_SIZE, SMALL = 15, 12
PAIR_HEIGHT = CELL + GAP + FONT_SIZE + 2 * SMALL + 4 * GAP
TOP = MARGIN + FONT_SIZE + 2 * GAP
BACKGROUND, TEXT, MUTED = (255, 255, 255), (0x22, 0x25, 0x2A), (0x5A, 0x60, 0x68)
MAX_BINS = 40


class SheetLine(NamedTuple):
    """Pictures of at most `CELL` pixels a side, under a title; the note below it is smaller."""

    title: str
    note: str
    pictures: Sequence[Image.Image]


class PairLabel(NamedTuple):
    """What is written under a pair: a number, and the names of its images."""

    value: str
    first: str
    second: str


def class_lines(pictures: Mapping[str, Sequence[Image.Image]], counts: Mapping[str, int]) -> list[SheetLine]:
    """Return a line for each class, in the order of `pictures`."""
    return [SheetLine(name, f"{counts[name]:,} images", found) for name, found in pictures.items()]


def plot_contact_sheet(title: str, lines: Sequence[SheetLine]) -> Image.Image:
    """Return the sheet: `title`, then each line with its label on the left, broken after `COLUMNS` pictures.

    Lines without a title have no space for a label.
    """
    left = MARGIN + (LABEL_WIDTH if any(line.title for line in lines) else 0)
    rows = [max(1, -(-len(line.pictures) // COLUMNS)) for line in lines]
    width = left + COLUMNS * (CELL + GAP) - GAP + MARGIN
    sheet, draw = _new_sheet(title, width, TOP + sum(rows) * (CELL + GAP) - GAP + MARGIN)
    top = TOP
    for line, count in zip(lines, rows, strict=True):
        if line.title:
            name = fitted_text(draw, line.title, LABEL_WIDTH - 2 * GAP, FONT_SIZE)
            draw.text((MARGIN, top + CELL // 2 - FONT_SIZE - 2), name, TEXT, load_font(FONT_SIZE))
            draw.text((MARGIN, top + CELL // 2 + 4), line.note, MUTED, load_font(SMALL))
        for i, picture in enumerate(line.pictures):
            corner = (left + i % COLUMNS * (CELL + GAP), top + i // COLUMNS * (CELL + GAP))
            _place(sheet, draw, picture, corner)
        top += count * (CELL + GAP)
    return sheet


def plot_pairs(title: str, first: Images, second: Images, labels: Sequence[PairLabel]) -> Image.Image:
    """Return the images of each pair side by side, in reading order, with its label below them."""
    lines = -(-len(labels) // PAIR_COLUMNS)
    width = 2 * MARGIN + PAIR_COLUMNS * (PAIR_WIDTH + GUTTER) - GUTTER
    sheet, draw = _new_sheet(title, width, TOP + lines * PAIR_HEIGHT + MARGIN)
    for i, label in enumerate(labels):
        left, top = MARGIN + i % PAIR_COLUMNS * (PAIR_WIDTH + GUTTER), TOP + i // PAIR_COLUMNS * PAIR_HEIGHT
        _place(sheet, draw, _picture(first, i), (left, top))
        _place(sheet, draw, _picture(second, i), (left + CELL + GAP, top))
        top += CELL + GAP
        value = fitted_text(draw, label.value, PAIR_WIDTH, FONT_SIZE)
        draw.text((left, top), value, TEXT, load_font(FONT_SIZE))
        top += FONT_SIZE + GAP
        for name in (label.first, label.second):
            shown = fitted_text(draw, name, PAIR_WIDTH, SMALL, keep="end")
            draw.text((left, top), shown, MUTED, load_font(SMALL))
            top += SMALL + GAP // 2
    return sheet


@style.figure_style()
def plot_image_sizes(sizes: Mapping[tuple[int, int], int]) -> Figure:
    """Plot the numbers of images by width and by height, in pixels, from those of each (width, height)."""
    figure = style.new_figure(2.6)
    panels = figure.subplots(1, 2, sharey=True)
    for place, (axes, name) in enumerate(zip(panels, ("Width (pixels)", "Height (pixels)"), strict=True)):
        counts: Counter[int] = Counter()
        for size, count in sizes.items():
            counts[size[place]] += count
        _histogram(axes, counts, style.COLORS[place])
        axes.set_xlabel(name)
    panels[0].set_ylabel("Images")
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    panels[0].yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def _histogram(axes: Axes, counts: Mapping[int, int], color: str) -> None:
    """Plot bins of equal width of whole pixels; one bar where there is one value."""
    values, weights = np.array(list(counts)), np.array(list(counts.values()))
    low, high = int(values.min()), int(values.max())
    width = max(1, -(-(high - low + 1) // MAX_BINS))
    edges = np.arange(low, high + width + 1, width) - 0.5
    axes.hist(values, edges.tolist(), weights=weights, color=color, edgecolor=style.BACKGROUND, linewidth=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if low == high:
        axes.set_xlim(low - 5, high + 5)
        axes.set_xticks([low])


def _new_sheet(title: str, width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    sheet = Image.new("RGB", (width, height), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    heading = fitted_text(draw, title, width - 2 * MARGIN, FONT_SIZE)
    draw.text((MARGIN, MARGIN - GAP), heading, TEXT, load_font(FONT_SIZE))
    return sheet, draw


def _picture(images: Images, index: int) -> Image.Image:
    """Return an image, every pixel an integer number of screen pixels, or made smaller than its place."""
    picture = Image.fromarray(images[index].movedim(0, 2).contiguous().numpy())
    scale = CELL // max(picture.size)
    if not scale:
        picture.thumbnail((CELL, CELL))
        return picture
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def _place(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, picture: Image.Image, corner: tuple[int, int]
) -> None:
    """Draw a picture at the center of its place, with a frame that separates white ones from the sheet."""
    x = corner[0] + (CELL - picture.width) // 2
    y = corner[1] + (CELL - picture.height) // 2
    sheet.paste(picture, (x, y))
    draw.rectangle((x - 1, y - 1, x + picture.width, y + picture.height), outline=FRAME_COLOR)
