"""Studies from Python: inductive_bias compares many networks that differ in one thing at a time."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from isopix.api.arguments import PathLike, checked
from isopix.api.results import StudyOutput, StudyProgress
from isopix.core.device import DeviceLike
from isopix.core.overrides import parse
from isopix.core.progress import track
from isopix.core.signals import Interrupted, stop_requested
from isopix.studies.executor import Executor, ExecutorObserver, ProcessExecutor, run_all, slots_on
from isopix.studies.inductive_bias.grid import FILE, Study, cost, plan_study
from isopix.studies.inductive_bias.write_up import write_up
from isopix.studies.slurm import SlurmExecutor
from isopix.studies.trial import TrialSpec, mark_failed, run_trial

Scale = Literal["tiny", "small", "paper"]


@checked
def inductive_bias(
    *,
    out: PathLike,
    data: PathLike | None = None,
    scale: Scale | None = None,
    trials: str = "*",
    seeds: int | None = None,
    probe: str | None = None,
    jobs: int | None = None,
    device: DeviceLike = "auto",
    slurm: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
    report_only: bool = False,
    progress: Callable[[StudyProgress], None] | None = None,
) -> StudyOutput:
    """Compare convolutions, mixers and transformers with three encodings, and test the paper's ten claims.

    Runs every trial of the scale that matches the patterns `trials` and is missing or has failed, `jobs` at a
    time (one per CPU core or GPU by default), or as SLURM jobs with the submitit parameters `slurm`; then
    writes figures and `report.html` to `out`. `scale` is by default that of the study in `out`, or `tiny`.
    `probe` is another probe method than the scale's own: `adam` is the paper's. A failed trial does not stop
    the others; called again, the study resumes. With `report_only` nothing is trained, and settings of the
    study are refused. Raises ValueError for wrong arguments and folders, Interrupted if asked to stop.
    """
    folder = Path(out)
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs is {jobs}; allowed: 1 or more")
    if report_only:
        study = Study.open(folder)
        chosen = {"trials": None if trials == "*" else trials, "settings": overrides or None}
        _refuse_settings({"data": data, "scale": scale, "seeds": seeds, "probe": probe, **chosen})
    else:
        source = None if data is None else str(data)
        planned = plan_study(
            scale or _scale_of(folder),
            data=source,
            pattern=trials,
            seeds=seeds,
            settings=overrides,
            probe=probe,
        )
        study = Study.from_plan(folder, planned)
        missing = len(study.missing(planned))
        executor = _executor(study, missing, jobs=jobs, device=device, slurm=slurm)
        if missing or data is not None:
            study.require_images()
        with Study.create(folder, planned) as study:
            stopped = _run(study.missing(planned), executor, progress)
        if stopped:
            raise Interrupted(f"stopped and saved: {folder}", study)
    written = write_up(study)
    return StudyOutput(written.claims, written.trials, written.page)


def _refuse_settings(given: Mapping[str, object]) -> None:
    """Raises ValueError for settings of a study that is only read."""
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ValueError(f"report_only writes the report of the study as it is; leave out {', '.join(named)}")


def _scale_of(folder: Path) -> str:
    """Return the scale of the study in a folder, `tiny` if there is none."""
    return Study.open(folder).plan.scale if (folder / FILE).is_file() else "tiny"


def _executor(
    study: Study, count: int, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str] | None
) -> Executor[TrialSpec]:
    """Return what runs that many trials. Raises ValueError for an unavailable device, and for several
    processes of a job.
    """
    if slurm is not None:
        given = parse(slurm)
        for name in ("nodes", "gpus_per_node", "tasks_per_node", "ntasks_per_node"):
            if given.get(name, 1) not in (0, 1):
                raise ValueError(f"{name} is {given[name]}; a trial is one process with one GPU: allowed: 1")
        size = jobs or max(1, count)
        return SlurmExecutor(run_trial, study.path / "slurm", given, size=size)
    return ProcessExecutor(run_trial, slots_on(device, jobs), modules=["isopix.studies.trial"])


def _run(
    specs: Sequence[TrialSpec],
    executor: Executor[TrialSpec],
    progress: Callable[[StudyProgress], None] | None,
) -> bool:
    """Run the trials, calling `progress` after each; return whether it was asked to stop."""
    costs = {spec.name: cost(spec) for spec in specs}
    left, start = dict(costs), time.monotonic()

    def job_ended(spec: TrialSpec, reason: str) -> None:
        if reason or spec.read().status == "not run":
            mark_failed(spec, reason or "ended without a result")
        del left[spec.name]
        done = len(costs) - len(left)
        count(done)
        if progress is not None:
            fraction = 1 - sum(left.values()) / sum(costs.values())
            seconds = time.monotonic() - start
            progress(StudyProgress(spec.name, spec.read(), done, len(costs), fraction, seconds))

    with stop_requested() as request, track("trials", len(costs)) as count:
        stop = lambda: request.signal is not None  # noqa: E731
        run_all(specs, executor, ExecutorObserver(job_ended=job_ended, stop=stop))
        return request.signal is not None
