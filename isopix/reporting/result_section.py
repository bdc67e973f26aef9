"""What a result shows of itself as a section of the page: its tables, its figures and its warnings."""

import json
from collections.abc import Sequence

from isopix.core import table
from isopix.plots import svg
from isopix.reporting.section import NUMBER, Chart, Panel, Row, Section, Table
from isopix.storage.result import Result


def result_section(title: str, results: Sequence[Result], name: str) -> Section:
    """Return a panel for each result; `name` starts the ids of its figures."""
    return Section(title, [_panel(each, f"{name}-{number}") for number, each in enumerate(results)])


def _panel(result: Result, name: str) -> Panel:
    record = json.loads(result.json())
    charts = [
        Chart(svg.svg_markup(figure, record, name=f"{name}-{number}", alt=caption), caption)
        for number, (caption, figure) in enumerate(result.figures())
    ]
    tables = result.tables()
    notes = [f"{tables[0].caption}."] if tables else []
    return Panel(
        charts, [_table(each) for each in tables], [*notes, *(f"Note: {text}." for text in result.warnings)]
    )


def _table(shown: table.Table) -> Table:
    columns = [(name, NUMBER if place else "") for place, name in enumerate(shown.columns)]
    return Table(columns, [Row([str(cell) for cell in row]) for row in shown.rows])
