"""Write the table of a protocol, measured next to published, with its figure and page."""

from collections.abc import Sequence
from pathlib import Path

from isopix.core.text import printable_lines
from isopix.recipes.published import Value
from isopix.storage.atomic import replace_file
from isopix.studies.page import PageFigure, write_page
from isopix.studies.papers.protocol import MeasuredRow, PaperProtocol, Records
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.results import ReproductionResult, TableCell, TableRow
from isopix.studies.papers.setup import Setup
from isopix.studies.papers.trials import Pretrain


def write_table(protocol: PaperProtocol, reproduction: Reproduction) -> ReproductionResult:
    """Write the table, and the figure if the protocol has one, from the run folders of finished trials."""
    setup, rows = reproduction.setup, protocol.rows(reproduction.setup)
    trials = {trial.name: trial for row in rows for trial in row.trials()}
    records = reproduction.records(list(trials.values()))
    folder = reproduction.path / protocol.name
    folder.mkdir(exist_ok=True)
    page = folder / "report.html"
    result = ReproductionResult(
        protocol=protocol.name,
        experiment=protocol.title,
        scale=setup.scale,
        statement=statement(setup, rows),
        note=protocol.note,
        units=protocol.units,
        rows=(*_published(protocol), *(_measured(row, records, setup.scale) for row in rows)),
        trials={name: reproduction.state(trial) for name, trial in trials.items()},
    ).saved(page)
    markdown = "\n\n".join([result.tables()[0].markdown(), result.statement, result.note])
    replace_file(folder / "table.md", printable_lines(f"{markdown}\n").encode())
    drawn = protocol.draw(rows, records) if protocol.draw else None
    numbers = {row.method: {name: cell.value for name, cell in row.cells.items()} for row in result.rows}
    figures = [PageFigure("figure", drawn[1], drawn[0], numbers)] if drawn else []
    title = f"{protocol.name}: {protocol.title}"
    write_page(page, result, figures, title="measured and published", headline=title, lead=result.statement)
    return result


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


def _published(protocol: PaperProtocol) -> list[TableRow]:
    return [
        TableRow(
            row.method,
            row.data,
            f"published ({row.source})" if row.source else "published",
            {name: _cell(cell) for name, cell in row.cells.items()},
        )
        for row in protocol.published
    ]


def _measured(row: MeasuredRow, records: Records, scale: str) -> TableRow:
    """Return a measured row, whose method is not named as the published one at another scale."""
    values = row.values(records)
    return TableRow(
        row.method if scale == "paper" else f"{row.method}, scale {scale}",
        Path(row.data).name,
        f"measured, scale {scale}",
        {name: _cell(value) for name, value in values.items() if value is not None},
        measured=True,
        model=describe(row.network),
    )


def _cell(value: Value | str) -> TableCell:
    return TableCell(value) if isinstance(value, str) else TableCell(value.number, value.std)
