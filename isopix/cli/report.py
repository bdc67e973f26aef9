"""`isopix report`: write an HTML report about runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import inspection
from isopix.cli.console import (
    Json,
    Plugins,
    load_plugins,
    note,
    say,
    show_json,
    show_table,
)
from isopix.core.text import percent_with_interval
from isopix.reporting.baselines import BaselineRow

Out = Annotated[
    Path | None,
    Parameter(help="File to write. Default: report.html in the run folder, or next to the first of several."),
]


def report(*runs: Path, out: Out = None, plugin: Plugins = None, json: Json = False) -> None:
    """Write a self-contained HTML report about one or more runs, and print its runs and baselines.

    Example: isopix report runs/photos

    Parameters
    ----------
    runs
        Run folders, in the order of the report.
    """
    load_plugins(plugin)
    written = inspection.report(*runs, out=out)
    if json:
        show_json({"report": str(written.path), "summary": [row._asdict() for row in written.summary]})
        return
    columns = ["name", "network", "loss", "layer", "accuracy"]
    title = "Runs and baselines: test loss in nats, test accuracy with 95 % interval"
    show_table(title, columns, [_format_row(row) for row in written.summary])
    for text in written.notes:
        note(text)
    say(f"wrote {written.path}")


def _format_row(row: BaselineRow) -> tuple[str, ...]:
    """Format a table row; values that were not measured stay empty."""
    accuracy = "" if row.accuracy is None else f"{row.accuracy:.1%}"
    if row.accuracy is not None and row.low is not None and row.high is not None:
        accuracy = percent_with_interval(row.accuracy, row.low, row.high)
    return (
        row.name if row.kind != "baseline" else f"  {row.name}",
        row.description,
        "" if row.loss is None else f"{row.loss:.3f}",
        "" if row.layer is None else str(row.layer),
        accuracy,
    )
