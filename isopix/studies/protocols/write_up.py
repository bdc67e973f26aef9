"""The table of a protocol, measured next to published: table.json, table.md, the figure and a page."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isopix.core.text import printable_lines
from isopix.plots import svg
from isopix.plots.style import write_figure
from isopix.recipes.published import Value
from isopix.reporting import template
from isopix.reporting.section import NUMBER, Chart, Panel, Row, Section, Table
from isopix.storage.atomic import replace_file, write_json
from isopix.storage.provenance import with_provenance
from isopix.studies.protocols.protocol import Cell, MeasuredRow, PaperProtocol, Records
from isopix.studies.protocols.reproduction import Reproduction, TrialState
from isopix.studies.protocols.setup import ProtocolScale, Setup
from isopix.studies.protocols.trials import Pretrain

DECIMALS = {"nats": 4}  # by unit; 1 for all others


class ProtocolTable(NamedTuple):
    """The table as in table.json, and its page."""

    record: Mapping[str, Any]
    page: Path

    @property
    def columns(self) -> list[str]:
        """The titles of the columns."""
        units = {each["name"]: each["unit"] for each in self.record["columns"]}
        names = [f"{name}, {unit}" if unit else name for name, unit in units.items()]
        return ["method", "data", *names, "model", "source"]

    @property
    def rows(self) -> list[list[str]]:
        """The cells as text; those that were not measured or published are empty."""
        units = {each["name"]: each["unit"] for each in self.record["columns"]}
        return [
            [
                row["method"],
                row["data"],
                *(
                    format_cell(row["cells"].get(name), unit, measured=row["measured"])
                    for name, unit in units.items()
                ),
                row["model"],
                row["source"],
            ]
            for row in self.record["rows"]
        ]


def write_table(protocol: PaperProtocol, reproduction: Reproduction) -> ProtocolTable:
    """Write the table, and the figure if the protocol has one, from the run folders of finished trials."""
    rows = protocol.rows(reproduction.setup)
    trials = {trial.name: trial for row in rows for trial in row.trials()}
    records = reproduction.records(list(trials.values()))
    states = {name: reproduction.state(trial) for name, trial in trials.items()}
    scale = reproduction.setup.scale
    values = {
        "kind": "protocol table",
        "protocol": protocol.name,
        "title": protocol.title,
        "scale": scale,
        "statement": statement(reproduction.setup, rows),
        "note": protocol.note,
        "columns": [{"name": name, "unit": unit} for name, unit in protocol.units.items()],
        "rows": [*_published(protocol), *(_measured(row, records, scale) for row in rows)],
        "trials": {name: _trial(state) for name, state in states.items()},
    }
    record = with_provenance(values)
    out = reproduction.path / protocol.name
    out.mkdir(exist_ok=True)
    write_json(out / "table.json", record)
    table = ProtocolTable(record, out / "report.html")
    drawn = None if protocol.draw is None else protocol.draw(rows, records)
    replace_file(out / "table.md", printable_lines(markdown(table)).encode())
    charts = []
    if drawn is not None:
        figure, caption = drawn
        write_figure(figure, out / "figure", {"caption": caption, "rows": record["rows"]})
        charts = [Chart(svg.svg_markup(figure, "figure", caption), caption)]
    replace_file(table.page, _page(table, charts).encode())
    return table


def statement(setup: Setup, rows: Sequence[MeasuredRow]) -> str:
    """Return what the measured numbers stand for, in a sentence or two."""
    networks = {row.network.name: row.network for row in rows}
    models = "; ".join(f"{name}: {describe(network)}" for name, network in networks.items())
    text = f"Measured rows are of scale {setup.scale} ({models})."
    if setup.scale == "paper" and not (setup.settings or setup.data or setup.pretrain_data):
        return text
    return (
        f"{text} They are not a reproduction of the published numbers, which are of other models, training "
        "or data; compare them with each other."
    )


def describe(network: Pretrain) -> str:
    """Return recipe, size, images and length of the pre-training of a network."""
    recipe = network.recipe
    model, data, train = recipe.model, recipe.data, recipe.train
    text = f"{recipe.name}, depth {model.depth}, width {model.width}, {data.rows}×{data.cols} pixels, "
    if network.given is not None:
        return f"{text}the run {network.given}"
    return f"{text}{train.steps:,} steps of {train.batch_size} images of {Path(data.source).name}"


def format_cell(cell: Mapping[str, Any] | str | None, unit: str, *, measured: bool) -> str:
    """Return `68.6`, `26.8 ± 1.5`, a text, or nothing; published numbers keep all their decimals."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    numbers = [each for each in (cell["value"], cell["std"]) if each is not None]
    decimals = DECIMALS.get(unit, 1)
    return " ± ".join(f"{each:.{decimals}f}" if measured else str(each) for each in numbers)


def markdown(table: ProtocolTable) -> str:
    """Return the table in Markdown, with its title, statement and note."""
    record = table.record
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    body = "\n".join("| " + " | ".join(each.replace("|", r"\|") for each in line) + " |" for line in lines)
    return (
        f"# {record['protocol']}: {record['title']}\n\n{record['statement']}\n\n{body}\n\n{record['note']}\n"
    )


def _published(protocol: PaperProtocol) -> list[dict[str, Any]]:
    return [
        {
            "method": row.method,
            "data": row.data,
            "measured": False,
            "cells": {name: _cell(cell) for name, cell in row.cells.items()},
            "model": "",
            "source": f"published ({row.source})" if row.source else "published",
        }
        for row in protocol.published
    ]


def _measured(row: MeasuredRow, records: Records, scale: ProtocolScale) -> dict[str, Any]:
    """Return a measured row, whose method is not named as the published one at another scale."""
    used = {name: cell.trial.name for name, cell in row.cells.items() if isinstance(cell, Cell)}
    return {
        "method": row.method if scale == "paper" else f"{row.method}, scale {scale}",
        "data": Path(row.data).name,
        "measured": True,
        "cells": {name: _cell(value) for name, value in row.values(records).items()},
        "model": describe(row.network),
        "source": f"measured, scale {scale}",
        "trials": used,
    }


def _cell(value: Value | str | None) -> dict[str, float | None] | str | None:
    return {"value": value.number, "std": value.std} if isinstance(value, Value) else value


def _trial(state: TrialState) -> dict[str, Any]:
    names = ("status", "reason", "record", "selection")
    return {name: getattr(state, name) for name in names}


def _page(table: ProtocolTable, charts: Sequence[Chart]) -> str:
    record = table.record
    css = ["", "", *[NUMBER] * len(record["columns"]), ""]
    rows = [Row([*cells[:-2], cells[-1]]) for cells in table.rows]  # the statement describes the models
    columns = [each for each in table.columns if each != "model"]
    results = Table(list(zip(columns, css, strict=True)), rows, "wrapped")
    trials = Table(
        [("trial", ""), ("status", ""), ("record", ""), ("selected on validation", "")],
        [Row([name, *_trial_cells(each)]) for name, each in record["trials"].items()],
        "wrapped",
    )
    sections = [
        *([Section("Figure", [Panel(charts)])] if charts else []),
        Section("Table", [Panel(tables=[results], notes=[record["note"]])]),
        Section("Trials", [Panel(tables=[trials])]),
    ]
    return template.render_template(
        "page.html.j2",
        Path(__file__).parent,
        title=f"{record['protocol']}: {record['title']}",
        statement=record["statement"],
        sections=sections,
        report_command=shlex.join(record["command"]),
    )


def _trial_cells(trial: Mapping[str, Any]) -> list[str]:
    status = f"{trial['status']}: {trial['reason']}" if trial["reason"] else trial["status"]
    selection = trial["selection"] or {}
    chosen = ", ".join(selection.get("selected", ()))
    step = f"{chosen}, step {selection['step']:,}" if selection else ""
    return [status, trial["record"], step]
