"""`isopix report`: write an HTML report about runs."""

import inspect
from pathlib import Path
from typing import Annotated

from isopix.core.verb import VERBS, verb
from isopix.reporting.results import ReportResult
from isopix.storage.result import Result
from isopix.verbs.options import PathLike

Runs = Annotated[PathLike, "Run folders, in the order of the report."]
Out = Annotated[
    Path | None, "File to write. Default: report.html in the run folder, or next to the first of several."
]


@verb()
def report(*runs: Runs, out: Out = None) -> ReportResult:
    """Write a self-contained HTML report about one or more runs, and print its runs and baselines.

    Example: isopix report runs/photos
    """
    from isopix.pretrained.run import require_writable, run_folder
    from isopix.reporting.page import read_runs, report_page
    from isopix.reporting.summary import incomparable, summary_rows
    from isopix.storage.atomic import replace_file

    if not runs:
        raise ValueError("report needs at least one run, as in: isopix report runs/photos")
    folders = [run_folder(run) for run in runs]
    default = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    path = out or default
    if path.is_dir():
        raise ValueError(f"out {path} is a folder; a report is one file, such as {path / 'report.html'}")
    require_writable(path.parent)
    records = read_runs(folders, result_kinds())
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, report_page(records).html().encode())
    different = incomparable(records)
    result = ReportResult(
        runs=tuple(str(each.path) for each in folders),
        summary=tuple(summary_rows(records)),
        warnings=(f"these runs cannot be compared: {different}",) if different else (),
    )
    return result.saved(path)


def result_kinds() -> dict[str, type[Result]]:
    """Return the class of the result of each verb by its name, which results are saved with."""
    found = {each.name: inspect.signature(each.function).return_annotation for each in VERBS.values()}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Result)}
