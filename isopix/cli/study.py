"""`isopix study`: many networks that differ in one thing at a time, and what comes of it."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from isopix.cli.console import Device, Json, say, show_json, show_table, warn
from isopix.cli.progress import clock, counting
from isopix.cli.run_display import INTERRUPTED, going_on
from isopix.core import device as devices
from isopix.core.command_line import command
from isopix.core.overrides import parse
from isopix.studies.claim_tests import Part
from isopix.studies.executor import Crew, Place, Processes, Watch, side_by_side
from isopix.studies.inductive_bias.write_up import Written, write_up
from isopix.studies.slurm import Slurm
from isopix.studies.study import Study, cost, plan
from isopix.studies.trial import Outcome, Task, fail, work
from isopix.train.signals import stop_requested

app = App(
    name="study",
    help="""Train, probe and compare many networks that differ in one thing at a time.

Example: isopix study inductive-bias --data cifar10 --out studies/bias
""",
)

Scale = Annotated[
    Literal["tiny", "small", "paper"],
    Parameter(help="tiny: 15 minutes on two cores; small: an hour of a GPU; paper: all cells at full size"),
]
Cells = Annotated[str, Parameter(help="which cells, as 'conv-*' or '*-1,*-3'; all of the scale without it")]
Words = Annotated[list[str] | None, Parameter(consume_multiple=True)]


@app.command
def inductive_bias(
    *settings: str,
    out: Path,
    data: str | None = None,
    scale: Scale = "tiny",
    cells: Cells = "*",
    seeds: int | None = None,
    jobs: int | None = None,
    device: Device = "auto",
    slurm: Words = None,
    report_only: bool = False,
    json: Json = False,
) -> None:
    """Convolutions, mixers and transformers by three encodings: every cell trained, probed and judged.

    Makes every cell that is missing or has failed, then the figures, a page `report.html` and the verdicts
    on the paper's ten claims. Stopped at any moment, the same command goes on. A cell that fails is told,
    and does not stop the rest.

    Example: isopix study inductive-bias --data cifar10 --out studies/bias

    Parameters
    ----------
    settings
        Changes to every cell, as path=value.
    out
        The folder of the study; new, empty, or that of the same study.
    data
        A folder of images, an .npz file, a Parquet file or folder, or a name (cifar10, digits, ...).
    seeds
        Over how many seeds, 0, 1 and so on; the scale's own number without it.
    jobs
        How many cells side by side: as many as there are cores, or GPUs, without it; all at once with SLURM.
    slurm
        Cells as jobs of SLURM, with submitit's parameters, as in --slurm partition=gpu timeout_min=60.
    report_only
        Train nothing; write figures, verdicts and page from what is there.
    """
    again = command(*sys.argv[1:])
    if report_only:
        study = Study.open(out)
    else:
        planned = plan(scale, data=data, pattern=cells, seeds=seeds, settings=settings)
        study = Study.of(out, planned)
        missing = len(study.missing(planned))
        crew = _crew(study, missing, jobs=jobs, device=device, slurm=slurm)
        if missing:
            study.require_images()
        with Study.create(out, planned) as study, going_on(study.path, again):
            stopped = _make(study.missing(planned), crew, say=warn if json else say)
        if stopped:
            (warn if json else say)(f"stopped and saved; go on with: {again}")
            raise SystemExit(INTERRUPTED)
    written = write_up(study)
    failed = [cell for cell in written.cells if cell["state"] == "failed"]
    if json:
        told = [each.told() for each in written.findings]
        show_json({"report": str(written.page), "claims": told, "cells": written.cells})
    else:
        _show(written, failed)
    if failed and not report_only:
        raise RuntimeError(f"{len(failed)} of {len(written.cells)} cells failed; to try them again: {again}")


def _crew(study: Study, count: int, *, jobs: int | None, device: str, slurm: list[str] | None) -> Crew[Task]:
    """Who makes so many cells. Raises ValueError for what cannot be."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs is {jobs}; allowed: 1 or more")
    if slurm is not None:
        return Slurm(work, study.path / "slurm", parse(slurm), size=jobs or max(1, count))
    there, cores = devices.every(device), devices.cores()
    size = jobs or (cores if there[0].type == "cpu" else len(there))
    threads = max(1, cores // size)
    places = [Place(str(there[number % len(there)]), threads) for number in range(size)]
    return Processes(work, places, modules=["isopix.studies.trial"])


def _make(tasks: Sequence[Task], crew: Crew[Task], *, say: Callable[[str], None]) -> bool:
    """Make the cells, and say what becomes of each; whether it was asked to stop."""
    with stop_requested() as request, counting("cells", len(tasks)) as done:
        progress = _Progress(tasks, say, done)
        stop = lambda: request.signal is not None  # noqa: E731
        side_by_side(tasks, crew, Watch(ended=progress.ended, stop=stop))
        return request.signal is not None


class _Progress:
    """Tells of every cell that ends what became of it, how many are left, and for how long at this pace."""

    def __init__(self, tasks: Sequence[Task], say: Callable[[str], None], done: Callable[[int], None]):
        self.say, self.done = say, done
        self.costs = {task.name: cost(task) for task in tasks}
        self.whole, self.began = sum(self.costs.values()), time.monotonic()
        self.left = dict(self.costs)

    def ended(self, task: Task, fate: str) -> None:
        if fate or task.read().state == "not yet":
            fail(task, fate or "ended without an outcome")
        del self.left[task.name]
        count, passed = len(self.costs) - len(self.left), time.monotonic() - self.began
        share = 1 - sum(self.left.values()) / self.whole
        self.done(count)
        time_left = f", about {clock(passed * (1 / share - 1))} left" if self.left else ""
        self.say(f"{count}/{len(self.costs)}  {task.name}: {_told(task.read())}{time_left}")


def _told(outcome: Outcome) -> str:
    cell = outcome.cell
    if outcome.state != "done" or cell is None:
        return f"failed: {outcome.reason}"
    slower = f" at rate {outcome.rungs[-1].lr:g}" if len(outcome.rungs) > 1 else ""
    took = clock(outcome.training_seconds + outcome.probing_seconds)
    return f"{cell.loss:.3f} nats, layer {cell.best} {cell.accuracy:.1%}{slower}, {took}"


def _show(written: Written, failed: Sequence[dict[str, Any]]) -> None:
    """The claims with their numbers, and what failed."""
    rows = list[list[str]]()
    for finding in written.findings:
        rows.append([finding.letter, finding.claim, "", finding.verdict])
        rows += [["", f"  {part.text}", _number(part), ""] for part in finding.parts]
    show_table("Claims of the paper, and what these cells say", ["", "claim", "number", "verdict"], rows)
    for cell in failed:
        say(f"failed: {cell['name']}: {cell['reason']}")
    say(f"wrote {written.page}")


def _number(part: Part) -> str:
    """Mean, deviation over seeds, and of how many."""
    if part.mean is None:
        return "cells are missing"
    spread = "" if part.deviation is None else f" ± {part.deviation:.2g}"
    count = f"{len(part.values)} {'seed' if len(part.values) == 1 else 'seeds'}"
    return f"{part.mean:+.3g}{spread} {part.unit}".rstrip() + f" ({count})"
