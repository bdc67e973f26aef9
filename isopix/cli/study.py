"""`isopix study`: train, probe and compare many networks."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from isopix.cli.console import Device, Json, say, show_json, show_table, warn
from isopix.cli.progress import format_duration, progress_bar
from isopix.cli.run_display import INTERRUPTED, with_resume_hint
from isopix.core import device as devices
from isopix.core.command_line import command_line
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
    help="""Run a study: train, probe and compare many networks that differ in one thing at a time.

Example: isopix study inductive-bias --data cifar10 --out studies/bias
""",
)

Scale = Annotated[
    Literal["tiny", "small", "paper"],
    Parameter(
        help="tiny: 15 minutes on two CPU cores; small: an hour on a GPU; paper: all trials at full size."
    ),
]
Trials = Annotated[
    str,
    Parameter(
        help="Name patterns of the trials to run, e.g. `conv-*` or `*-1,*-3`. Default: all of the scale."
    ),
]
SlurmOptions = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]


@app.command
def inductive_bias(
    *settings: str,
    out: Path,
    data: str | None = None,
    scale: Scale = "tiny",
    trials: Trials = "*",
    seeds: int | None = None,
    jobs: int | None = None,
    device: Device = "auto",
    slurm: SlurmOptions = None,
    report_only: bool = False,
    json: Json = False,
) -> None:
    """Compare convolutions, mixers and transformers with three encodings, and test the paper's ten claims.

    Runs every trial that is missing or has failed, then writes figures and a page `report.html`. A failed
    trial does not stop the others. The same command resumes an interrupted study.

    Example: isopix study inductive-bias --data cifar10 --out studies/bias

    Parameters
    ----------
    settings
        Settings to override in every trial, as name=value.
    out
        Folder of the study: new, empty, or that of the same study to resume.
    data
        Data set: an image folder, .npz file, Parquet file or folder, or name (cifar10, digits, ...).
    seeds
        Number of seeds per trial. Default: that of the scale.
    jobs
        Number of parallel trials. Default: one per CPU core or GPU; all at once with SLURM.
    slurm
        Run trials as SLURM jobs with submitit parameters, e.g. --slurm partition=gpu timeout_min=60.
    report_only
        Do not train; write the figures and the page from existing results.
    """
    again = command_line(*sys.argv[1:])
    if report_only:
        study = Study.open(out)
    else:
        planned = plan(scale, data=data, pattern=trials, seeds=seeds, settings=settings)
        study = Study.of(out, planned)
        missing = len(study.missing(planned))
        executor = _executor(study, missing, jobs=jobs, device=device, slurm=slurm)
        if missing:
            study.require_images()
        with Study.create(out, planned) as study, with_resume_hint(study.path, again):
            stopped = _run(study.missing(planned), executor, say=warn if json else say)
        if stopped:
            (warn if json else say)(f"stopped and saved; resume with: {again}")
            raise SystemExit(INTERRUPTED)
    written = write_up(study)
    failed = [trial for trial in written.cells if trial["state"] == "failed"]
    if json:
        claims = [each.told() for each in written.findings]
        show_json({"report": str(written.page), "claims": claims, "trials": written.cells})
    else:
        _print_claims(written, failed)
    if failed and not report_only:
        raise RuntimeError(f"{len(failed)} of {len(written.cells)} trials failed; retry with: {again}")


def _executor(
    study: Study, count: int, *, jobs: int | None, device: str, slurm: list[str] | None
) -> Crew[Task]:
    """Return the executor for this many trials. Raises ValueError for wrong options."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs is {jobs}; allowed: 1 or more")
    if slurm is not None:
        return Slurm(work, study.path / "slurm", parse(slurm), size=jobs or max(1, count))
    available, cores = devices.list_devices(device), devices.available_cores()
    size = jobs or (cores if available[0].type == "cpu" else len(available))
    threads = max(1, cores // size)
    places = [Place(str(available[i % len(available)]), threads) for i in range(size)]
    return Processes(work, places, modules=["isopix.studies.trial"])


def _run(tasks: Sequence[Task], executor: Crew[Task], *, say: Callable[[str], None]) -> bool:
    """Run the trials and print the result of each; return whether the study was asked to stop."""
    with stop_requested() as request, progress_bar("trials", len(tasks)) as done:
        progress = _Progress(tasks, say, done)
        stop = lambda: request.signal is not None  # noqa: E731
        side_by_side(tasks, executor, Watch(ended=progress.ended, stop=stop))
        return request.signal is not None


class _Progress:
    """Prints the result of every trial that ends, how many are left, and the estimated time left."""

    def __init__(self, tasks: Sequence[Task], say: Callable[[str], None], done: Callable[[int], None]):
        self.say, self.done = say, done
        self.costs = {task.name: cost(task) for task in tasks}
        self.total, self.start = sum(self.costs.values()), time.monotonic()
        self.left = dict(self.costs)

    def ended(self, task: Task, error: str) -> None:
        if error or task.read().state == "not yet":
            fail(task, error or "ended without a result")
        del self.left[task.name]
        count, elapsed = len(self.costs) - len(self.left), time.monotonic() - self.start
        fraction = 1 - sum(self.left.values()) / self.total
        self.done(count)
        eta = f"  eta {format_duration(elapsed * (1 / fraction - 1))}" if self.left else ""
        self.say(f"{count}/{len(self.costs)}  {task.name}: {_result(task.read())}{eta}")


def _result(outcome: Outcome) -> str:
    cell = outcome.cell
    if outcome.state != "done" or cell is None:
        return f"failed: {outcome.reason}"
    lr = f", lr {outcome.rungs[-1].rate:g}" if len(outcome.rungs) > 1 else ""
    duration = format_duration(outcome.training_seconds + outcome.probing_seconds)
    return f"loss {cell.loss:.3f} nats, accuracy {cell.accuracy:.1%} at layer {cell.best}{lr}, {duration}"


def _print_claims(written: Written, failed: Sequence[dict[str, Any]]) -> None:
    """Print the claims with their numbers, and the trials that failed."""
    rows = list[list[str]]()
    for finding in written.findings:
        rows.append([finding.letter, finding.claim, "", finding.verdict])
        rows += [["", f"  {part.text}", _number(part), ""] for part in finding.parts]
    show_table("Claims of the paper", ["", "claim", "measured", "result"], rows)
    for trial in failed:
        say(f"failed: {trial['name']}: {trial['reason']}")
    say(f"wrote {written.page}")


def _number(part: Part) -> str:
    """Format the mean, the standard deviation over seeds, and the number of seeds."""
    if part.mean is None:
        return "not run"
    std = "" if part.deviation is None else f" ± {part.deviation:.2g}"
    count = f"{len(part.values)} {'seed' if len(part.values) == 1 else 'seeds'}"
    return f"{part.mean:+.3g}{std} {part.unit}".rstrip() + f" ({count})"
