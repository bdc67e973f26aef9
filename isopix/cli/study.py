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
from isopix.studies.claim_tests import Contrast
from isopix.studies.executor import Executor, ExecutorObserver, ProcessExecutor, Slot, run_all
from isopix.studies.inductive_bias.grid import Study, cost, plan_study
from isopix.studies.inductive_bias.write_up import WriteUp, write_up
from isopix.studies.slurm import SlurmExecutor
from isopix.studies.trial import TrialResult, TrialSpec, mark_failed, run_trial
from isopix.train.signals import stop_requested

app = App(
    name="study",
    help="""Run a study: train, probe and compare many networks that differ in one setting at a time.

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
        planned = plan_study(scale, data=data, pattern=trials, seeds=seeds, settings=settings)
        study = Study.from_plan(out, planned)
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
    failed = [trial for trial in written.trials if trial["status"] == "failed"]
    if json:
        claims = [claim.as_record() for claim in written.claims]
        show_json({"report": str(written.page), "claims": claims, "trials": written.trials})
    else:
        _print_claims(written, failed)
    if failed and not report_only:
        raise RuntimeError(f"{len(failed)} of {len(written.trials)} trials failed; retry with: {again}")


def _executor(
    study: Study, count: int, *, jobs: int | None, device: str, slurm: list[str] | None
) -> Executor[TrialSpec]:
    """Return the executor for this many trials. Raises ValueError for wrong options."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs is {jobs}; allowed: 1 or more")
    if slurm is not None:
        return SlurmExecutor(run_trial, study.path / "slurm", parse(slurm), size=jobs or max(1, count))
    available, cores = devices.list_devices(device), devices.available_cores()
    size = jobs or (cores if available[0].type == "cpu" else len(available))
    threads = max(1, cores // size)
    slots = [Slot(str(available[i % len(available)]), threads) for i in range(size)]
    return ProcessExecutor(run_trial, slots, modules=["isopix.studies.trial"])


def _run(specs: Sequence[TrialSpec], executor: Executor[TrialSpec], *, say: Callable[[str], None]) -> bool:
    """Run the trials and print the result of each; return whether a stop was requested."""
    with stop_requested() as request, progress_bar("trials", len(specs)) as done:
        progress = _Progress(specs, say, done)
        stop = lambda: request.signal is not None  # noqa: E731
        run_all(specs, executor, ExecutorObserver(job_ended=progress.job_ended, stop=stop))
        return request.signal is not None


class _Progress:
    """Prints the result of every trial that ends, how many are left, and the estimated time left."""

    def __init__(self, specs: Sequence[TrialSpec], say: Callable[[str], None], done: Callable[[int], None]):
        self.say, self.done = say, done
        self.costs = {spec.name: cost(spec) for spec in specs}
        self.total, self.start = sum(self.costs.values()), time.monotonic()
        self.left = dict(self.costs)

    def job_ended(self, spec: TrialSpec, reason: str) -> None:
        if reason or spec.read().status == "not run":
            mark_failed(spec, reason or "ended without a result")
        del self.left[spec.name]
        count, elapsed = len(self.costs) - len(self.left), time.monotonic() - self.start
        fraction = 1 - sum(self.left.values()) / self.total
        self.done(count)
        eta = f"  eta {format_duration(elapsed * (1 / fraction - 1))}" if self.left else ""
        self.say(f"{count}/{len(self.costs)}  {spec.name}: {_result(spec.read())}{eta}")


def _result(result: TrialResult) -> str:
    trial = result.trial
    if result.status != "done" or trial is None:
        return f"failed: {result.reason}"
    lr = f", lr {result.lr_trials[-1].lr:g}" if len(result.lr_trials) > 1 else ""
    duration = format_duration(result.training_seconds + result.probing_seconds)
    accuracy = f"accuracy {trial.test_accuracy:.1%} at layer {trial.best_layer}"
    return f"loss {trial.loss:.3f} nats, {accuracy}{lr}, {duration}"


def _print_claims(written: WriteUp, failed: Sequence[dict[str, Any]]) -> None:
    """Print the claims with their contrasts, and the trials that failed."""
    rows = list[list[str]]()
    for claim in written.claims:
        rows.append([claim.letter, claim.claim, "", claim.conclusion])
        rows += [["", f"  {each.text}", _number(each), ""] for each in claim.contrasts]
    show_table("Claims of the paper", ["", "claim", "contrast", "result"], rows)
    for trial in failed:
        say(f"failed: {trial['name']}: {trial['reason']}")
    say(f"wrote {written.page}")


def _number(contrast: Contrast) -> str:
    """Format the mean, the standard deviation over seeds, and the number of seeds."""
    if contrast.mean is None:
        return "not run"
    std = "" if contrast.std is None else f" ± {contrast.std:.2g}"
    count = f"{len(contrast.values)} {'seed' if len(contrast.values) == 1 else 'seeds'}"
    return f"{contrast.mean:+.3g}{std} {contrast.unit}".rstrip() + f" ({count})"
