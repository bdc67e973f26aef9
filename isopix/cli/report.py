"""`isopix report`: write an HTML report about runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Json, Plugins, load_plugins, say, show_json, show_table
from isopix.report import headline, page
from isopix.report.baselines import BaselineRow, baseline_rows
from isopix.report.probe_section import differences, primary_probes
from isopix.report.run_record import RunRecord
from isopix.storage.atomic import report_disk_full, write_bytes
from isopix.storage.run_folder import RunFolder

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
    folders = [RunFolder.open(path) for path in runs]
    records = page.read(folders)
    if out is None:
        out = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; a report is one file, such as {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with report_disk_full(f"report {out}", out.parent):
        write_bytes(out, page.render_report(records).encode())
    rows = baseline_rows(records)
    if json:
        show_json({"report": str(out), "summary": [row._asdict() for row in rows]})
        return
    columns = ["name", "network", "test loss (nats)", "layer", "test accuracy (95 % CI)"]
    show_table("Runs and baselines", columns, [_format_row(row) for row in rows])
    for note in _notes(records):
        say(f"note: {note}")
    say(f"wrote {out}")


def _notes(runs: Mapping[str, RunRecord]) -> list[str]:
    """Return why a network is not better than untrained, and which runs cannot be compared."""
    found = [f"{name}: {text}" for name, run in runs.items() if (text := headline.diagnosis(run))]
    different = differences(list(primary_probes(runs).values()))
    return [*found, headline.headline(runs)] if different else found


def _format_row(row: BaselineRow) -> tuple[str, ...]:
    """Format a table row; values that were not measured stay empty."""
    interval = "" if row.low is None or row.high is None else f" ({row.low:.1%} to {row.high:.1%})"
    return (
        row.name if row.kind != "baseline" else f"  {row.name}",
        row.description,
        "" if row.loss is None else f"{row.loss:.3f}",
        "" if row.layer is None else str(row.layer),
        "" if row.accuracy is None else f"{row.accuracy:.1%}{interval}",
    )
