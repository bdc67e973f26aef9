"""`isopix report`: write an HTML report about runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Json, Plugins, load_plugins, say, show_json, show_table
from isopix.report import headline, page
from isopix.report.load_run import Gathered
from isopix.report.probes import differences, speaking
from isopix.report.summary import Row, summary
from isopix.storage.atomic import report_disk_full, write_bytes
from isopix.storage.run_folder import RunFolder

Out = Annotated[
    Path | None,
    Parameter(help="File to write. Default: report.html in the run folder, or next to the first of several."),
]


def report(*runs: Path, out: Out = None, plugin: Plugins = None, json: Json = False) -> None:
    """Write a self-contained HTML report about one or more runs, and print its summary table.

    Example: isopix report runs/photos

    Parameters
    ----------
    runs
        Run folders, in the order of the report.
    """
    load_plugins(plugin)
    folders = [RunFolder.open(path) for path in runs]
    gathered = page.read(folders)
    if out is None:
        out = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; a report is one file, such as {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with report_disk_full(f"report {out}", out.parent):
        write_bytes(out, page.render(gathered).encode())
    rows = summary(gathered)
    if json:
        show_json({"report": str(out), "summary": [row._asdict() for row in rows]})
        return
    columns = ["name", "network", "test loss (nats)", "layer", "test accuracy (95 % CI)"]
    show_table("Runs and baselines", columns, [_format_row(row) for row in rows])
    for note in _notes(gathered):
        say(f"note: {note}")
    say(f"wrote {out}")


def _notes(gathered: Mapping[str, Gathered]) -> list[str]:
    """Return why a network is not better than untrained, and which runs cannot be compared."""
    found = [f"{name}: {why}" for name, run in gathered.items() if (why := headline.why(run))]
    different = differences(list(speaking(gathered).values()))
    return [*found, headline.headline(gathered)] if different else found


def _format_row(row: Row) -> tuple[str, ...]:
    """Format a row of the summary table; values that were not measured stay empty."""
    interval = "" if row.low is None or row.high is None else f" ({row.low:.1%} to {row.high:.1%})"
    return (
        row.name if row.kind != "control" else f"  {row.name}",
        row.what,
        "" if row.nats is None else f"{row.nats:.3f}",
        "" if row.layer is None else str(row.layer),
        "" if row.test is None else f"{row.test:.1%}{interval}",
    )
