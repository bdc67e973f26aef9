"""`isopix report`: a page about runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Json, say, show_json, show_table
from isopix.report import headline, page
from isopix.report.load_run import Gathered
from isopix.report.probes import differences, speaking
from isopix.report.summary import Row, summary
from isopix.storage.atomic import report_disk_full, write_bytes
from isopix.storage.run_folder import RunFolder

Out = Annotated[Path | None, Parameter(help="the file to write")]


def report(*runs: Path, out: Out = None, json: Json = False) -> None:
    """One self-contained HTML page about one or several runs, and its summary table.

    Without `--out` one run's page is its own `report.html`; that of several stands beside the first of them.

    Example: isopix report runs/photos

    Parameters
    ----------
    runs
        Run folders, in the order in which they are shown.
    """
    folders = [RunFolder.open(path) for path in runs]
    gathered = page.read(folders)
    if out is None:
        out = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; a report is one file, as in {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with report_disk_full(f"report {out}", out.parent):
        write_bytes(out, page.render(gathered).encode())
    rows = summary(gathered)
    if json:
        show_json({"report": str(out), "summary": [row._asdict() for row in rows]})
        return
    columns = ["", "what", "nats", "layer", "test accuracy (95 % interval)"]
    show_table("Runs, and controls that have learnt nothing", columns, [cells(row) for row in rows])
    for note in notes(gathered):
        say(f"note: {note}")
    say(f"wrote {out}")


def notes(gathered: Mapping[str, Gathered]) -> list[str]:
    """What the table cannot say: why a network is not above its untrained self, what not to compare."""
    found = [f"{name}: {why}" for name, run in gathered.items() if (why := headline.why(run))]
    different = differences(list(speaking(gathered).values()))
    return [*found, headline.headline(gathered)] if different else found


def cells(row: Row) -> tuple[str, ...]:
    """A row of the summary as words; what was not measured stays empty."""
    interval = "" if row.low is None or row.high is None else f" ({row.low:.1%} to {row.high:.1%})"
    return (
        row.name if row.kind != "control" else f"  {row.name}",
        row.what,
        "" if row.nats is None else f"{row.nats:.3f}",
        "" if row.layer is None else str(row.layer),
        "" if row.test is None else f"{row.test:.1%}{interval}",
    )
