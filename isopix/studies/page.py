"""The page of a study or a protocol: its figures, and the tables of its result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isopix.plots import style
from isopix.plots.style import Figure
from isopix.reporting.section import Page, Panel, Section, figure_chart
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
    """Write the page, and each figure with its numbers into the folder `figures` next to it."""
    charts = []
    for each in figures:
        style.write_figure(each.drawing, path.parent / "figures" / each.name, each.numbers)
        charts.append(figure_chart(each.drawing, each.numbers, each.name, each.caption, "chart wide-chart"))
    sections = [Section("Figures", [Panel(charts)]), Section("Tables", [Panel(tables=result.tables())])]
    page = Page(title, headline, sections, result.call.get("command", ()), lead)
    replace_file(path, page.html().encode())
