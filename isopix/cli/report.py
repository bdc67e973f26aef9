"""`isopix report`: a page about runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import say
from isopix.report import page
from isopix.train.disk import room_for, write
from isopix.train.run_folder import RunFolder

Out = Annotated[Path | None, Parameter(help="the file to write")]


def report(*runs: Path, out: Out = None) -> None:
    """One self-contained HTML page about one or several runs.

    Without `--out` one run's page is its own `report.html`; that of several stands beside the first of them.

    Example: isopix report runs/photos

    Parameters
    ----------
    runs
        Run folders, in the order in which they are shown.
    """
    folders = [RunFolder.open(path) for path in runs]
    text = page.build(folders)
    if out is None:
        out = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; a report is one file, as in {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with room_for(f"report {out}", out.parent):
        write(out, text.encode())
    say(f"wrote {out}")
