"""Pictures with captions as HTML that needs no other file."""

import base64
import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from isopix.core.text import printable
from isopix.plots.images import png_bytes


class Tile(NamedTuple):
    """A picture of uint8 [H W 3] and its caption."""

    pixels: UInt8[np.ndarray, "H W 3"]
    caption: str


def tiles_html(tiles: Sequence[Tile], *, title: str = "") -> str:
    """Return pictures side by side, each pixel a square."""
    heading = f"<h3>{_text(title)}</h3>" if title else ""
    return f'{heading}<div class="tiles">{"".join(map(_figure, tiles))}</div>'


def table_html(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and values as a table."""
    lines = "".join(
        f"<tr><th scope='row'>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows
    )
    return f"<table>{lines}</table>"


def note_html(text: str) -> str:
    """Return a quiet line; nothing for an empty one."""
    return f'<p class="note">{_text(text)}</p>' if text else ""


def problem_html(text: str) -> str:
    """Return the line of an error."""
    return f'<p class="problem" role="alert">{_text(" ".join(text.split()))}</p>'


def _figure(tile: Tile) -> str:
    height, width = tile.pixels.shape[:2]
    data = base64.b64encode(png_bytes(Image.fromarray(tile.pixels))).decode()
    picture = (
        f'<img src="data:image/png;base64,{data}" width="{width}" height="{height}" '
        f'alt="{_text(tile.caption or "picture")}">'
    )
    return f"<figure>{picture}<figcaption>{_text(tile.caption)}</figcaption></figure>"


def _text(text: str) -> str:
    return html.escape(printable(text))
