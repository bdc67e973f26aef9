"""Pages of self-contained HTML, without scripts and network access: titled sections of panels of figures,
tables, text lines and settings; a result is a section.
"""

import base64
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from isopix.core.files import read_regular
from isopix.core.text import Table, naming, printable_lines
from isopix.core.version import __version__
from isopix.data.decode import failure_reason, opened_image
from isopix.plots import style
from isopix.plots.style import Figure
from isopix.reporting.results import SummaryRow
from isopix.storage.atomic import replace_file
from isopix.storage.result import Result

Text = str | Markup
ChartKind = Literal["chart", "chart wide-chart", "pixels", "pixels palette"]


class Chart(NamedTuple):
    """A figure with its caption; `kind` is its CSS class, `files` are data URLs to download, by name."""

    drawing: Markup
    caption: str
    kind: ChartKind = "chart"
    files: Mapping[str, str] = MappingProxyType({})


class Settings(NamedTuple):
    """A titled list of (name, value) pairs; a `folded` one is shown on request."""

    title: str
    items: Sequence[tuple[str, str]]
    folded: bool = False


class Panel(NamedTuple):
    """Charts, and then notes (lines of text), the summary of runs, tables, settings and code."""

    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Text] = ()
    settings: Sequence[Settings] = ()
    code: str = ""
    summary: Sequence[SummaryRow] = ()


class Section(NamedTuple):
    """A titled part of a page; `layout` `pair` places the charts of a panel to the left of the rest."""

    title: str
    panels: Sequence[Panel]
    layout: Literal["stack", "pair"] = "stack"
    css: Literal["", "wrapped"] = ""


Facts = Sequence[tuple[str, str]]


class Article(NamedTuple):
    """A part of a page with a heading of its own, as of one run of several."""

    name: str
    headline: tuple[str, str]
    facts: Facts
    sections: Sequence[Section]


class Page(NamedTuple):
    """A page; `command` is what wrote it."""

    title: str
    headline: str
    lead: str
    sections: Sequence[Section]
    command: Sequence[str]
    facts: Facts = ()
    articles: Sequence[Article] = ()

    def html(self) -> str:
        return render("page.html.j2", **{**self._asdict(), "command": shlex.join(self.command)})


def render(template: str, **values: Any) -> str:
    """Return a template of this folder with these values; in HTML, text is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": "{:.1%}".format, "count": "{:,}".format, "markdown": escape_markdown}
    return printable_lines(environment.get_template(template).render(version=__version__, **values))


def figure_chart(figure: Figure, numbers: Any, name: str, caption: str, kind: ChartKind = "chart") -> Chart:
    """Return a figure, and files of this name to download: it as SVG and its numbers as JSON."""
    files = {
        f"{name}.svg": data_url(style.render_svg(figure).encode(), "image/svg+xml"),
        f"{name}.json": data_url(json.dumps(numbers).encode(), "application/json"),
    }
    return Chart(Markup(style.inline_svg(figure, name=name, alt=caption)), caption, kind, files)


class PageFigure(NamedTuple):
    """A figure with its file name, its caption and its numbers."""

    name: str
    caption: str
    drawing: Figure
    numbers: Any


def write_page(
    path: Path, result: Result, figures: Sequence[PageFigure], *, title: str, headline: str, lead: str
) -> None:
    """Write the page of a study or a protocol; its figures and their numbers go into the folder `figures`."""
    charts = []
    for each in figures:
        style.write_figure(each.drawing, path.parent / "figures" / each.name, each.numbers)
        charts.append(figure_chart(each.drawing, each.numbers, each.name, each.caption, "chart wide-chart"))
    sections = [Section("Figures", [Panel(charts)]), Section("Tables", [Panel(tables=result.tables())])]
    page = Page(title, headline, lead, sections, result.call.get("command", ()))
    replace_file(path, page.html().encode())


def result_panel(result: Result, name: str) -> Panel:
    """Return what a result shows of itself; `name` starts the names of its figures."""
    record, notes = result.record(), [f"Note: {each}." for each in result.warnings]
    with naming(str(result.path)):
        charts = [
            figure_chart(figure, record, f"{name}-{number}", caption)
            for number, (caption, figure) in enumerate(result.figures())
        ]
    for picture in result.pictures if not charts else ():
        try:
            tag = image_tag(read_regular(picture), f"{result.title}: {result.caption}")
            charts.append(Chart(tag, result.caption, "pixels"))
        except Exception as error:  # damaged files raise a dozen types
            notes.append(f"Note: the picture {picture.name} is not shown: {failure_reason(error)}.")
    return Panel(charts, result.tables(), notes)


def escape_markdown(text: str) -> str:
    """Return text in one line, without Markdown and HTML markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))


def data_url(content: bytes, media_type: str = "image/png") -> str:
    """Return the content of a file, by default of a PNG, as a URL."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def image_tag(png: bytes, alt: str, *, scale: float = 0.5) -> Markup:
    """Return an image; by default at two of its pixels per CSS pixel, sharp on fine screens and in print."""
    with opened_image(png) as image:
        width, height = (int(side * scale) for side in image.size)
    return Markup('<img src="{}" width="{}" height="{}" alt="{}">').format(data_url(png), width, height, alt)


def join_words(words: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def missing(text: str, command: str) -> Markup:
    """Return a line that names the command for something that is missing."""
    return Markup("{} <code>{}</code>").format(text, command)
