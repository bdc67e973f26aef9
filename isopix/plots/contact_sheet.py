"""Contact sheet: a line of pictures for each class, with its name and number of images."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from isopix.plots.fitted_text import fitted_text, load_font
from isopix.plots.images import FRAME_COLOR

CELL, GAP, MARGIN = 96, 6, 16  # pixels: the side of the place of a picture
LABEL_WIDTH = 220
COLUMNS = 10
FONT_SIZE, SMALL = 15, 12
BACKGROUND, TEXT, MUTED = (255, 255, 255), (0x22, 0x25, 0x2A), (0x5A, 0x60, 0x68)


class SheetLine(NamedTuple):
    """Pictures of at most `CELL` pixels a side, under a title; the note below it is smaller."""

    title: str
    note: str
    pictures: Sequence[Image.Image]


def class_lines(pictures: Mapping[str, Sequence[Image.Image]], counts: Mapping[str, int]) -> list[SheetLine]:
    """Return a line for each class, in the order of `pictures`."""
    return [SheetLine(name, f"{counts[name]:,} images", found) for name, found in pictures.items()]


def plot_contact_sheet(title: str, lines: Sequence[SheetLine]) -> Image.Image:
    """Return the sheet: `title`, then each line with its label on the left, broken after `COLUMNS` pictures.

    Lines without a title have no space for a label.
    """
    left = MARGIN + (LABEL_WIDTH if any(line.title for line in lines) else 0)
    rows = [max(1, -(-len(line.pictures) // COLUMNS)) for line in lines]
    top = MARGIN + FONT_SIZE + 2 * GAP
    width = left + COLUMNS * (CELL + GAP) - GAP + MARGIN
    height = top + sum(rows) * (CELL + GAP) - GAP + MARGIN
    sheet = Image.new("RGB", (width, height), BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    heading = fitted_text(draw, title, width - 2 * MARGIN, FONT_SIZE)
    draw.text((MARGIN, MARGIN - GAP), heading, TEXT, load_font(FONT_SIZE))
    for line, count in zip(lines, rows, strict=True):
        if line.title:
            name = fitted_text(draw, line.title, LABEL_WIDTH - 2 * GAP, FONT_SIZE)
            draw.text((MARGIN, top + CELL // 2 - FONT_SIZE - 2), name, TEXT, load_font(FONT_SIZE))
            draw.text((MARGIN, top + CELL // 2 + 4), line.note, MUTED, load_font(SMALL))
        for i, picture in enumerate(line.pictures):
            corner = (left + i % COLUMNS * (CELL + GAP), top + i // COLUMNS * (CELL + GAP))
            place_picture(sheet, draw, picture, corner)
        top += count * (CELL + GAP)
    return sheet


def place_picture(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, picture: Image.Image, corner: tuple[int, int]
) -> None:
    """Draw a picture at the center of its place, with a frame that separates white ones from the sheet."""
    x = corner[0] + (CELL - picture.width) // 2
    y = corner[1] + (CELL - picture.height) // 2
    sheet.paste(picture, (x, y))
    draw.rectangle((x - 1, y - 1, x + picture.width, y + picture.height), outline=FRAME_COLOR)
