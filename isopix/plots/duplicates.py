"""Labeled pairs of images: near-duplicates, and outliers beside their nearest images."""

from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from isopix.core.types import Images
from isopix.plots.contact_sheet import (
    BACKGROUND,
    CELL,
    FONT_SIZE,
    GAP,
    MARGIN,
    MUTED,
    SMALL,
    TEXT,
    place_picture,
)
from isopix.plots.fitted_text import fitted_text, load_font

COLUMNS = 5  # pairs side by side
GUTTER = 28  # pixels between pairs
WIDTH = 2 * CELL + GAP
HEIGHT = CELL + GAP + FONT_SIZE + 2 * SMALL + 4 * GAP


class PairLabel(NamedTuple):
    """What is written under a pair: a number, and the names of its images."""

    value: str
    first: str
    second: str


def plot_pairs(title: str, first: Images, second: Images, labels: Sequence[PairLabel]) -> Image.Image:
    """Return the images of each pair side by side, in reading order, with its label below them."""
    lines = -(-len(labels) // COLUMNS)
    top = MARGIN + FONT_SIZE + 2 * GAP
    width = 2 * MARGIN + COLUMNS * (WIDTH + GUTTER) - GUTTER
    sheet = Image.new("RGB", (width, top + lines * HEIGHT + MARGIN), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    heading = fitted_text(draw, title, width - 2 * MARGIN, FONT_SIZE)
    draw.text((MARGIN, MARGIN - GAP), heading, TEXT, load_font(FONT_SIZE))
    for i, label in enumerate(labels):
        left, upper = MARGIN + i % COLUMNS * (WIDTH + GUTTER), top + i // COLUMNS * HEIGHT
        for column, images in enumerate((first, second)):
            place_picture(sheet, draw, _picture(images, i), (left + column * (CELL + GAP), upper))
        _write(draw, label, (left, upper + CELL + GAP))
    return sheet


def _picture(images: Images, index: int) -> Image.Image:
    """Return an image, every pixel an integer number of screen pixels, or made smaller than its place."""
    picture = Image.fromarray(images[index].movedim(0, 2).contiguous().numpy())
    scale = CELL // max(picture.size)
    if not scale:
        picture.thumbnail((CELL, CELL))
        return picture
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def _write(draw: ImageDraw.ImageDraw, label: PairLabel, corner: tuple[int, int]) -> None:
    left, upper = corner
    draw.text((left, upper), fitted_text(draw, label.value, WIDTH, FONT_SIZE), TEXT, load_font(FONT_SIZE))
    upper += FONT_SIZE + GAP
    for name in (label.first, label.second):
        draw.text((left, upper), fitted_text(draw, name, WIDTH, SMALL, keep="end"), MUTED, load_font(SMALL))
        upper += SMALL + GAP // 2
