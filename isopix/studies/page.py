"""The page of a study or a protocol: its figures, and the tables of its result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isopix.plots import style, svg
from isopix.plots.style import Figure
from isopix.reporting.page import Page
from isopix.reporting.section import Chart, Panel, Section, page_table
from isopix.storage.atomic import replace_file
from isopix.storage.result import Result


class PageFigure(NamedTuple):
    """A figure with its file name, its caption and its numbers."""

    name: str
    caption: str
    drawing: Figure
    numbers: Any


def write_page(
    path: Path, result: Result, figures: Sequence[PageFigure], *, title: str, headline: str, lead: str
) -> None:
    """Write the page, and each figure with its numbers into the folder `figures` beside it."""
    charts = []
    for each in figures:
        style.write_figure(each.drawing, path.parent / "figures" / each.name, each.numbers)
        markup = svg.svg_markup(each.drawing, each.numbers, name=each.name, alt=each.caption)
        charts.append(Chart(markup, each.caption, "chart wide-chart"))
    tables = list(map(page_table, result.tables()))
    sections = [Section("Figures", [Panel(charts)]), Section("Tables", [Panel(tables=tables)])]
    page = Page(title, headline, sections, result.call.get("command", ()), lead)
    replace_file(path, page.html().encode())
