"""`isopix report`: a page about runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Json, say, show_json, show_table
from isopix.report import headline, page
from isopix.report.baselines import BaselineRow, baseline_rows
from isopix.report.load_run import RunRecord
from isopix.report.probe_section import differences, primary_probes
from isopix.storage.atomic import room_for, write
from isopix.storage.run_folder import RunFolder

Out = Annotated[Path | None, Parameter(help="the file to write")]


def report(*runs: Path, out: Out = None, json: Json = False) -> None:
    """Write one self-contained HTML page about one or several runs, and print runs and baselines.

    Without `--out`, the page of one run is its `report.html`, and that of several is next to the first run.

    Example: isopix report runs/photos

    Parameters
    ----------
    runs
        Run folders, in the order in which they are shown.
    """
    folders = [RunFolder.open(path) for path in runs]
    records = page.read(folders)
    if out is None:
        out = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; a report is one file, as in {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with room_for(f"report {out}", out.parent):
        write(out, page.render(records).encode())
    rows = baseline_rows(records)
    if json:
        show_json({"report": str(out), "summary": [row._asdict() for row in rows]})
        return
    columns = ["", "description", "nats", "layer", "test accuracy (95 % interval)"]
    show_table("Runs and baselines", columns, [cells(row) for row in rows])
    for note in notes(records):
        say(f"note: {note}")
    say(f"wrote {out}")


def notes(runs: Mapping[str, RunRecord]) -> list[str]:
    """Return why a network is not better than its untrained baseline, and which runs not to compare."""
    found = [f"{name}: {text}" for name, run in runs.items() if (text := headline.diagnosis(run))]
    different = differences(list(primary_probes(runs).values()))
    return [*found, headline.headline(runs)] if different else found


def cells(row: BaselineRow) -> tuple[str, ...]:
    """Return a row as text; what was not measured is empty."""
    interval = "" if row.low is None or row.high is None else f" ({row.low:.1%} to {row.high:.1%})"
    return (
        row.name if row.kind != "baseline" else f"  {row.name}",
        row.description,
        "" if row.loss is None else f"{row.loss:.3f}",
        "" if row.layer is None else str(row.layer),
        "" if row.accuracy is None else f"{row.accuracy:.1%}{interval}",
    )
