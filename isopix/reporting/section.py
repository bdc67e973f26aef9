"""Sections of a page: titled panels of figures, tables, text lines and settings; a result is a section."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from markupsafe import Markup
from PIL import Image

from isopix.core import table
from isopix.plots import svg
from isopix.storage.result import Result

Text = str | Markup
NUMBER = "n"  # CSS class of a right-aligned column
FOLDED = 20  # rows, above which a table is shown on request


class Chart(NamedTuple):
    """A figure with its caption; `kind` is its CSS class, `title` a heading above it."""

    drawing: Markup
    caption: str = ""
    kind: Literal["chart", "chart wide-chart", "pixels", "pixels palette"] = "chart"
    title: str = ""


class Row(NamedTuple):
    """The cells of a table's line, the row's header first, and its CSS class."""

    cells: Sequence[Text]
    css: str = ""


class PageTable(NamedTuple):
    """`columns` are (title, CSS classes) pairs; a `folded` table is shown on request, under that title."""

    columns: Sequence[tuple[Text, str]]
    rows: Sequence[Row]
    css: str = ""
    folded: str = ""
    caption: str = ""


class Settings(NamedTuple):
    """A titled list of (name, value) pairs; a `folded` one is shown on request."""

    title: str
    items: Sequence[tuple[str, str]]
    folded: bool = False


class Panel(NamedTuple):
    """Charts, and then notes (lines of text), tables, settings and code."""

    charts: Sequence[Chart] = ()
    tables: Sequence[PageTable] = ()
    notes: Sequence[Text] = ()
    settings: Sequence[Settings] = ()
    code: str = ""


class Section(NamedTuple):
    """A titled part of a page; `layout` `pair` places the charts of a panel to the left of the rest."""

    title: str
    panels: Sequence[Panel]
    layout: Literal["stack", "pair", "grid"] = "stack"


def page_table(shown: table.Table) -> PageTable:
    """Return a result's table for a page: the row of what was chosen, which ends with `*`, is bold."""
    columns = [(name, NUMBER * shown.is_numeric(place)) for place, name in enumerate(shown.columns)]
    rows = [Row(list(map(str, row)), "run" * str(row[0]).endswith("*")) for row in shown.rows]
    folded = shown.caption if len(rows) > FOLDED else ""
    return PageTable(columns, rows, folded=folded, caption="" if folded else shown.caption)


def result_panel(result: Result, name: str) -> Panel:
    """Return what a result shows of itself; `name` starts the names of its figures."""
    record = result.record()
    charts = [
        Chart(svg.svg_markup(figure, record, name=f"{name}-{number}", alt=caption), caption)
        for number, (caption, figure) in enumerate(result.figures())
    ]
    if not charts and (picture := result_picture(result)):
        tag = image_tag(picture.read_bytes(), f"{result.title}: {result.caption}")
        charts.append(Chart(tag, result.caption, "pixels"))
    notes = [f"Note: {each}." for each in result.warnings]
    return Panel(charts, [page_table(each) for each in result.tables()], notes)


def result_picture(result: Result) -> Path | None:
    """Return the file of the picture beside the record of a result, or in its folder."""
    path = result.path
    if path is None:
        return None
    if path.with_suffix(".png").is_file():
        return path.with_suffix(".png")
    folder = path.parent if path.stem == result.call["verb"] else path
    return next(iter(sorted(folder.glob("*.png"))), None)


def embed(png: bytes) -> str:
    """Return a PNG as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def image_tag(png: bytes, alt: str, *, scale: float = 0.5) -> Markup:
    """Return an image; by default at two of its pixels per CSS pixel, sharp on fine screens and in print."""
    with Image.open(io.BytesIO(png)) as image:
        width, height = (int(side * scale) for side in image.size)
    return Markup('<img src="{}" width="{}" height="{}" alt="{}">').format(embed(png), width, height, alt)


def percent(fraction: float) -> str:
    """Return `41.2 %`, with a no-break space."""
    return f"{100 * fraction:.1f}\u00a0%"


def join_words(words: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def missing(text: str, command: str) -> Markup:
    """Return a line that names the command for something that is missing."""
    return Markup("{} <code>{}</code>").format(text, command)
