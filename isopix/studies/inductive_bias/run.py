"""Run the trials of a study that are missing, side by side or as SLURM jobs."""

from collections.abc import Sequence
from pathlib import Path

from isopix.core.device import DeviceLike
from isopix.core.overrides import parse
from isopix.core.progress import announce, track
from isopix.core.signals import Interrupted, stop_requested
from isopix.studies.executor import Executor, ExecutorObserver, ProcessExecutor, run_all, slots_on
from isopix.studies.inductive_bias.grid import Study, StudyPlan
from isopix.studies.inductive_bias.results import StudyResult
from isopix.studies.inductive_bias.trial import TrialSpec, mark_failed, run_trial
from isopix.studies.slurm import SlurmExecutor


def run_study(
    folder: Path, planned: StudyPlan, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str]
) -> Study:
    """Run the trials of a plan that are not done, `jobs` at a time.

    Raises ValueError for a folder or images of something else, Interrupted if asked to stop.
    """
    study = Study.from_plan(folder, planned)
    missing = len(study.missing(planned))
    executor = _executor(study, missing, jobs=jobs, device=device, slurm=slurm)
    if missing or planned.data is not None:
        study.require_images()
    with Study.create(folder, planned) as study:
        specs = study.missing(planned)
        left = {spec.name for spec in specs}

        def job_ended(spec: TrialSpec, reason: str) -> None:
            if reason or spec.read().status == "not run":
                mark_failed(spec, reason or "ended without a result")
            left.remove(spec.name)
            announce(f"{spec.name}: {spec.read().text}")
            count(len(specs) - len(left))

        with stop_requested() as request, track("trials", len(specs)) as count:
            observer = ExecutorObserver(job_ended=job_ended, stop=lambda: request.signal is not None)
            run_all(specs, executor, observer)
    if request.signal is not None:
        text = f"stopped and saved: {folder}; the same command resumes"
        trials = {name: each.summary() for name, each in study.results().items()}
        raise Interrupted(text, StudyResult(facts={}, claims={}, trials=trials, warnings=(text,)))
    return study


def _executor(
    study: Study, count: int, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str]
) -> Executor[TrialSpec]:
    """Return what runs that many trials. Raises ValueError for an unavailable device, and for several
    processes of a job.
    """
    if not slurm:
        return ProcessExecutor(run_trial, slots_on(device, jobs), ["isopix.studies.inductive_bias.trial"])
    given = parse(slurm)
    for name in ("nodes", "gpus_per_node", "tasks_per_node", "ntasks_per_node"):
        if given.get(name, 1) not in (0, 1):
            raise ValueError(f"{name} is {given[name]}; a trial is one process with one GPU: allowed: 1")
    return SlurmExecutor(run_trial, study.path / "slurm", given, size=jobs or max(1, count))
