"""`isopix study`: train, probe and compare many networks."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from isopix.api import study
from isopix.api.results import StudyOutput, StudyProgress
from isopix.cli.console import (
    Device,
    Json,
    say,
    say_wrapped,
    show_json,
    warn,
)
from isopix.cli.launch import SlurmParameters
from isopix.core.signals import STOPPED, Interrupted, with_resume_hint
from isopix.core.text import command_line, format_duration
from isopix.studies.claim_tests import Contrast
from isopix.studies.trial import TrialResult

app = App(
    name="study",
    help="""Run a study: train, probe and compare many networks that differ in one setting at a time.

Example: isopix study inductive-bias --out studies/bias
""",
)

Scale = Annotated[
    Literal["tiny", "small", "paper"] | None,
    Parameter(
        help="tiny: digits, half an hour on two CPU cores; small: CIFAR-10, many hours; paper: full size. "
        "Default: that of the study, or tiny."
    ),
]
Trials = Annotated[
    str,
    Parameter(
        help="Name patterns of the trials to run, e.g. `conv-*` or `*-1,*-3`. Default: all of the scale."
    ),
]

TrialJobs = Annotated[
    SlurmParameters,
    Parameter(
        help="Run trials as SLURM jobs with submitit parameters, e.g. --slurm partition=gpu timeout_min=60."
    ),
]


@app.command
def inductive_bias(
    *settings: str,
    out: Path,
    data: str | None = None,
    scale: Scale = None,
    trials: Trials = "*",
    seeds: int | None = None,
    probe: str | None = None,
    jobs: int | None = None,
    device: Device = "auto",
    slurm: TrialJobs = None,
    report_only: bool = False,
    json: Json = False,
) -> None:
    """Compare convolutions, mixers and transformers with three encodings, and test the paper's ten claims.

    Runs every trial that is missing or has failed, then writes figures and a page `report.html`. A failed
    trial does not stop the others. The same command resumes an interrupted study.

    Example: isopix study inductive-bias --out studies/bias

    Parameters
    ----------
    settings
        Settings to override in every trial, as name=value.
    out
        Folder of the study: new, empty, or that of the same study to resume.
    data
        Dataset: an image folder, .npz, Parquet, tar or Arrow files, or name (cifar10, digits, ...). Default:
        that of the scale.
    seeds
        Number of seeds per trial. Default: that of the scale.
    probe
        Probe method: adam (that of the paper), ridge, lbfgs, sgd or knn. Default: that of the scale.
    jobs
        Number of parallel trials. Default: one per CPU core or GPU; all at once with SLURM.
    report_only
        Do not train; write the figures and the page from existing results.
    """
    again, show = command_line(*sys.argv[1:]), warn if json else say
    with with_resume_hint(out, again):

        def trial_ended(progress: StudyProgress) -> None:
            show(_format_progress(progress))

        try:
            found = study.inductive_bias(
                out=out,
                data=data,
                scale=scale,
                trials=trials,
                seeds=seeds,
                probe=probe,
                jobs=jobs,
                device=device,
                slurm=slurm,
                overrides=settings,
                report_only=report_only,
                progress=trial_ended,
            )
        except Interrupted:
            show(f"stopped and saved; resume with: {again}")
            raise SystemExit(STOPPED) from None
    if json:
        claims = {pool: [claim.as_record() for claim in each] for pool, each in found.claims.items()}
        show_json({"report": str(found.path), "claims": claims, "trials": found.trials})
    else:
        _print_claims(found)
    if found.failed and not report_only:
        raise RuntimeError(f"{len(found.failed)} of {len(found.trials)} trials failed; retry with: {again}")


def _format_progress(progress: StudyProgress) -> str:
    """Format a trial that has ended, how many have, and the estimated time left."""
    left = progress.seconds * (1 / progress.fraction - 1)
    eta = f"  eta {format_duration(left)}" if progress.done < progress.total else ""
    return f"{progress.done}/{progress.total}  {progress.trial}: {_result(progress.result)}{eta}"


def _result(result: TrialResult) -> str:
    trial = result.trial
    if result.status != "done" or trial is None:
        return f"failed: {result.reason}"
    lr = f", lr {result.lr_trials[-1].lr:g}" if len(result.lr_trials) > 1 else ""
    duration = format_duration(result.seconds)
    accuracies = (f"{pool} {probes.network.test_accuracy:.1%}" for pool, probes in trial.probes.items())
    return f"loss {trial.loss:.3f} nats, accuracy: {', '.join(accuracies)}{lr}, {duration}"


def _print_claims(found: StudyOutput) -> None:
    """Print the claims with their contrasts under each pool, and the trials that failed."""
    for pool, claims in found.claims.items():
        say_wrapped(f"claims of the paper, pool {pool}: mean difference (95 % interval)")
        for claim in claims:
            say_wrapped(f"{claim.letter}  {claim.verdict}: {claim.claim}")
            measured = [each for each in claim.contrasts if each.mean is not None]
            for each in measured:
                say_wrapped(f"{each.text}: {_number(each)}{_note(each)}", indent=5)
            if len(measured) < len(claim.contrasts):
                missing = len(claim.contrasts) - len(measured)
                say_wrapped(f"{missing} contrasts need networks that are missing", indent=5)
        say("")
    for trial in found.failed:
        say_wrapped(f"failed: {trial['name']}: {trial['reason']}")
    say(f"wrote {found.path}")


def _number(contrast: Contrast) -> str:
    """Format a mean and its interval, as `+3.1 points (+2 to +4.2)`."""
    mean = f"{contrast.mean:+.3g} {contrast.unit}".rstrip()
    return mean if contrast.interval is None else "{} ({:+.3g} to {:+.3g})".format(mean, *contrast.interval)


def _note(contrast: Contrast) -> str:
    """Return what hinders a decision; empty where there is one."""
    if not contrast.counted:
        return "; not part of the verdict"
    if contrast.regime:
        return f"; cannot be judged: {contrast.regime}"
    return f"; {contrast.needed}" if contrast.needed else ""
