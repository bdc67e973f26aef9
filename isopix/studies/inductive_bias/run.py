"""Run the trials of a study that are missing, and write its results: their record, figures and page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from isopix.core.choices import Pool
from isopix.core.device import DeviceLike
from isopix.core.overrides import parse
from isopix.core.progress import announce, track
from isopix.core.signals import Interrupted, stop_requested
from isopix.studies.executor import Submit, in_processes, in_slurm, run_all, slots_on
from isopix.studies.inductive_bias.claims import evaluate_claims
from isopix.studies.inductive_bias.evidence import StudyEvidence
from isopix.studies.inductive_bias.figures import read_examples, study_figures
from isopix.studies.inductive_bias.grid import SCALES, Study, StudyPlan
from isopix.studies.inductive_bias.results import STUDY_POOLS, ClaimRecord, StudyResult, TrialResult
from isopix.studies.inductive_bias.trial import TrialSpec, run_trial
from isopix.studies.page import write_page

TITLE = "Inductive biases of small isotropic networks"


def run_study(
    folder: Path, planned: StudyPlan, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str]
) -> Study:
    """Run the trials of a plan that are not done, `jobs` at a time. Interrupted if asked to stop."""
    study = Study.from_plan(folder, planned)
    missing = len(study.missing(planned))
    submit, size = _executor(study.path, missing, jobs=jobs, device=device, slurm=slurm)
    if missing or planned.data is not None:
        study.require_images()
    with Study.create(folder, planned) as study:
        specs = study.missing(planned)
        left = {spec.name for spec in specs}

        def job_ended(spec: TrialSpec, reason: str) -> None:
            if reason or spec.read().status == "not run":
                spec.fail(reason or "ended without a result")
            left.remove(spec.name)
            announce(f"{spec.name}: {spec.read().text}")
            count(len(specs) - len(left))

        with stop_requested() as request, track("trials", len(specs)) as count:
            run_all(specs, submit, size, ended=job_ended, stop=lambda: request.signal is not None)
    if request.signal is not None:
        text = f"stopped and saved: {folder}; the same command resumes"
        raise Interrupted(text, StudyResult(facts={}, claims={}, trials=study.results(), warnings=(text,)))
    return study


def _executor(
    folder: Path, count: int, *, jobs: int | None, device: DeviceLike, slurm: Sequence[str]
) -> tuple[Submit[TrialSpec], int]:
    if not slurm:
        slots = slots_on(device, jobs)
        return in_processes(run_trial, slots, ["isopix.studies.inductive_bias.trial"]), len(slots)
    given = parse(slurm)
    for name in ("nodes", "gpus_per_node", "tasks_per_node", "ntasks_per_node"):
        if given.get(name, 1) not in (0, 1):
            raise ValueError(f"{name} is {given[name]}; a trial is one process with one GPU: allowed: 1")
    return in_slurm(run_trial, folder / "slurm", given), jobs or max(1, count)


def write_up(study: Study) -> StudyResult:
    """Test the claims, draw the figures and write the page, from the trials that are done."""
    results = study.results()
    done = {name: result for name, result in results.items() if result.status == "done"}
    _check_same_images(done)
    claims = evaluate_trials(list(done.values()), SCALES[study.plan.scale].effects)
    facts = _facts(study, list(done.values()))
    result = StudyResult(facts=facts, claims=claims, trials=results).saved(study.path / "report.html")
    write_page(
        study.path / "report.html",
        result,
        list(study_figures([each.measured() for each in done.values()], read_examples(study.specs), claims)),
        title=TITLE,
        headline=f"{len(done)} of {len(results)} networks",
        lead="; ".join(result.verdict_counts(pool) for pool in claims),
    )
    return result


def evaluate_trials(
    done: Sequence[TrialResult], effects: Mapping[str, float]
) -> dict[Pool, tuple[ClaimRecord, ...]]:
    """Return the results of the ten claims under each pool, from the results of finished trials."""
    groups = np.array(done[0].test_groups) if done and done[0].test_groups else None
    trials = [each.measured() for each in done]
    evidence = [StudyEvidence(trials, pool, effects, groups) for pool in STUDY_POOLS]
    return {each.pool: tuple(evaluate_claims(each)) for each in evidence}


def _check_same_images(done: Mapping[str, TrialResult]) -> None:
    images = {name: (each.environment.get("data"), each.test_groups) for name, each in done.items()}
    for name, own in images.items():
        first = next(iter(images))
        if own != images[first]:
            raise ValueError(f"{name} and {first} are of other images; take the results of one of them away")


def _facts(study: Study, done: Sequence[TrialResult]) -> dict[str, str]:
    first = study.specs[0]
    data, train = first.recipe.data, first.recipe.train
    facts = {
        "scale": study.plan.scale,
        "images": f"{data.source}, {data.rows} × {data.cols}",
        "width": f"{first.recipe.model.width}",
        "training": f"{train.steps:,} steps of {train.batch_size}",
        "probe": first.probe.label(),
        "seeds": f"{study.plan.seeds}",
    }
    for name in dict.fromkeys(name for each in done for name in each.environment):
        facts[name] = "; ".join(dict.fromkeys(str(each.environment.get(name, "unknown")) for each in done))
    return facts
