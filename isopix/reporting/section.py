"""Sections of a page: titled panels of figures, tables, text lines and missing parts."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from markupsafe import Markup

Text = str | Markup
NUMBER = "n"  # CSS class of a right-aligned column


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


class Table(NamedTuple):
    """`columns` are (title, CSS classes) pairs; a `folded` table is shown on request, under that title."""

    columns: Sequence[tuple[Text, str]]
    rows: Sequence[Row]
    css: str = ""
    folded: str = ""


class Settings(NamedTuple):
    """A titled list of (name, value) pairs; a `folded` one is shown on request."""

    title: str
    items: Sequence[tuple[str, str]]
    folded: bool = False


class Panel(NamedTuple):
    """Charts, and then notes (lines of text), tables, settings and code."""

    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[Text] = ()
    settings: Sequence[Settings] = ()
    code: str = ""


class Section(NamedTuple):
    """A titled part of a page; `layout` `pair` places the charts of a panel to the left of the rest."""

    title: str
    panels: Sequence[Panel]
    layout: Literal["stack", "pair", "grid"] = "stack"


def percent(fraction: float) -> str:
    """Return `41.2 %`, with a no-break space."""
    return f"{100 * fraction:.1f}\u00a0%"


def join_words(words: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def interval(low: float | None, high: float | None) -> Text:
    """Return `48.0–52.0`, in percent; empty without bounds."""
    if low is None or high is None:
        return ""
    return Markup('<span class="quiet">{:.1f}–{:.1f}</span>').format(100 * low, 100 * high)


def interval_bar(value: float, low: float | None, high: float | None) -> Markup:
    """Return a bar from 0 to 100 % with a mark at `value` and its interval."""
    bounds = low is not None and high is not None
    whisker = f'<path class="whisker" d="M{100 * (low or 0)} 4H{100 * (high or 0)}"/>' if bounds else ""
    return Markup(
        '<svg class="range" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="ground" d="M0 4H100M0 1V7M50 1V7M100 1V7"/>{whisker}'
        f'<path class="point" d="M{100 * value} 0V8"/></svg>'
    )


def missing(text: str, command: str) -> Markup:
    """Return a line that names the command for something that is missing."""
    return Markup("{} <code>{}</code>").format(text, command)
