"""Text in pictures, cut where it is too wide."""

from pathlib import Path
from typing import Literal

import matplotlib as mpl
from PIL import ImageDraw, ImageFont

ELLIPSIS = "…"
FONT = Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")  # most scripts; Pillow's has Latin only


def fitted_text(
    draw: ImageDraw.ImageDraw, text: str, width: int, size: int, *, keep: Literal["start", "end"] = "start"
) -> str:
    """Return the text, with an ellipsis for its end, or its start, where it is too wide."""
    font = load_font(size)
    if draw.textlength(text, font) <= width:
        return text
    for length in range(len(text) - 1, 0, -1):
        shorter = text[:length] + ELLIPSIS if keep == "start" else ELLIPSIS + text[-length:]
        if draw.textlength(shorter, font) <= width:
            return shorter
    return ELLIPSIS


def load_font(size: int) -> ImageFont.FreeTypeFont:
    """Return the font of names, of this size in pixels."""
    return ImageFont.truetype(FONT, size)
