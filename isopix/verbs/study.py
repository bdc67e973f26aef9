"""`isopix study`: train, probe and compare many networks."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from isopix.core.choices import Count as Positive
from isopix.core.verb import verb
from isopix.studies.inductive_bias.results import StudyResult
from isopix.verbs.options import DATASETS, DeviceLike, Settings
from isopix.verbs.pretrain import same_command

Out = Annotated[Path, "Folder of the study: new, empty, or that of the same study to resume."]
Images = Annotated[str | Path | None, f"Dataset: {DATASETS}. Default: that of the scale."]
Scale = Annotated[
    Literal["tiny", "small", "paper"] | None,
    "tiny: digits, half an hour on two CPU cores; small: CIFAR-10, many hours; paper: full size. "
    "Default: that of the study, or tiny.",
]
Trials = Annotated[
    str, "Name patterns of the trials to run, e.g. `conv-*` or `*-1,*-3`. Default: all of the scale."
]
Seeds = Annotated[Positive | None, "Number of seeds per trial. Default: that of the scale."]
Probe = Annotated[
    str | None,
    "Probe method: adam (that of the paper), ridge, lbfgs, sgd or knn. Default: that of the scale.",
]
Jobs = Annotated[
    Positive | None, "Number of parallel trials. Default: one per CPU core or GPU; all at once with SLURM."
]
Slurm = Annotated[
    tuple[str, ...],
    Parameter(consume_multiple=True),
    "Run trials as SLURM jobs with submitit parameters, e.g. --slurm partition=gpu timeout_min=60.",
]
ReportOnly = Annotated[bool, "Do not train; write the figures and the page from existing results."]


@verb(command="study inductive-bias")
def study_inductive_bias(
    *settings: Settings,
    out: Out,
    data: Images = None,
    scale: Scale = None,
    trials: Trials = "*",
    seeds: Seeds = None,
    probe: Probe = None,
    jobs: Jobs = None,
    slurm: Slurm = (),
    report_only: ReportOnly = False,
    device: DeviceLike = "auto",
) -> StudyResult:
    """Compare convolutions, mixers and transformers with three encodings, and test the paper's ten claims.

    Runs every trial that is missing or has failed, then writes figures and a page `report.html`. The same
    command resumes an interrupted study; `settings` override those of every trial.

    Example: isopix study inductive-bias --out studies/bias
    """
    from isopix.core.signals import with_resume_hint
    from isopix.studies.inductive_bias.study import Study, plan_study, run_study, write_up

    if report_only:
        chosen = {"data": data, "scale": scale, "seeds": seeds, "probe": probe, "settings": settings or None}
        named = [name for name, value in chosen.items() if value is not None] + ["trials"] * (trials != "*")
        if named:
            raise ValueError(f"report_only writes the study as it is; leave out {', '.join(named)}")
        return write_up(Study.open(out))
    planned = plan_study(
        scale or Study.scale_in(out), data=data, pattern=trials, seeds=seeds, settings=settings, probe=probe
    )
    with with_resume_hint(out, same_command()):
        return write_up(run_study(out, planned, jobs=jobs, device=device, slurm=slurm))
