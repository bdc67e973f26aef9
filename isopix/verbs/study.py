"""`isopix study` and `isopix reproduce`: train and compare many networks, as the papers did."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from isopix.core.choices import MFU
from isopix.core.choices import Count as Positive
from isopix.core.verb import VERBS, verb
from isopix.studies.inductive_bias.results import StudyResult
from isopix.studies.results import PlannedTrial, ReproductionPlan, ReproductionResult
from isopix.verbs.options import DATASETS, DeviceLike, Settings
from isopix.verbs.pretrain import same_command

if TYPE_CHECKING:
    from isopix.studies.papers.protocol import PaperProtocol, Setup

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


ProtocolName = Annotated[str, "Name from `isopix list protocols`."]
ReproductionOut = Annotated[
    Path, "Folder of trials and tables: new, empty, or that of the same setup to resume."
]
ReproductionScale = Annotated[
    Literal["tiny", "small", "paper"],
    "tiny: minutes per network on two CPU cores; small: igpt.tiny and others; paper: as published.",
]
Labeled = Annotated[str | Path | None, f"Labeled dataset instead of those of the paper: {DATASETS}."]
Unlabeled = Annotated[
    str | Path | None, "Dataset of pre-training. Default: that of --data; at scale paper, ImageNet."
]
Existing = Annotated[
    tuple[str, ...],
    Parameter(consume_multiple=True),
    "Existing runs instead of pre-training, by network, e.g. igpt-l=runs/igpt-l.",
]


@verb()
def reproduce(
    protocol: ProtocolName,
    *settings: Settings,
    out: ReproductionOut,
    scale: ReproductionScale = "tiny",
    data: Labeled = None,
    pretrain_data: Unlabeled = None,
    pretrained: Existing = (),
    device: DeviceLike = "auto",
) -> ReproductionResult:
    """Run the experiment of a table or figure of a paper, and show measured next to published numbers.

    Writes a table and a page into a folder of the protocol in --out; protocols with the same --out share
    their networks. A trial that fails leaves its cells empty. The same command resumes after an interruption.

    Example: isopix reproduce igpt.table4 --data cifar10 --scale small --out reproductions
    """
    from isopix.core.signals import Interrupted, with_resume_hint
    from isopix.studies.papers.reproduction import Reproduction, write_table

    def run_verb(command: str, *given: object, **options: object) -> Path:
        return Path(VERBS[command].function(*given, device=device, **options).path)

    found, setup = _experiment(protocol, settings, scale, data, pretrain_data, pretrained)
    trials = found.trials(setup)
    with with_resume_hint(out, same_command()), Reproduction.create(out, setup) as reproduction:
        for trial in trials:
            reproduction.state(trial)  # raises ValueError before anything is trained
        try:
            for trial in trials:
                reproduction.run(trial, run_verb)
        except Interrupted:
            text = f"stopped and saved: {out}; the same command resumes"
            result = replace(write_table(found, reproduction), warnings=(text,))
            raise Interrupted(text, result) from None
        return write_table(found, reproduction)


@verb(command="reproduce plan")
def plan_reproduction(
    protocol: ProtocolName,
    *settings: Settings,
    scale: ReproductionScale = "tiny",
    data: Labeled = None,
    pretrain_data: Unlabeled = None,
    pretrained: Existing = (),
) -> ReproductionPlan:
    """Show the trials of a protocol and their cost; writes nothing.

    Example: isopix reproduce plan igpt.table4 --scale paper
    """
    from isopix.recipes.cost import device_costs

    found, setup = _experiment(protocol, settings, scale, data, pretrain_data, pretrained)
    planned = tuple(
        PlannedTrial(each.name, len(each.trainings()), each.training_flops()) for each in found.trials(setup)
    )
    costs = device_costs(sum(each.training_flops for each in planned), "bf16")
    hours = next(each.hours for each in costs if each.device == "A100")
    return ReproductionPlan(protocol=protocol, trials=planned, hours=hours, mfu=MFU)


def _experiment(
    name: str,
    settings: Sequence[str],
    scale: ReproductionScale,
    data: Labeled,
    pretrain_data: Unlabeled,
    pretrained: Existing,
) -> "tuple[PaperProtocol, Setup]":
    from isopix.studies.papers.protocol import Setup, absolute, existing_runs, find_protocol

    where = absolute(data), absolute(pretrain_data)
    return find_protocol(name), Setup(scale, *where, tuple(settings), existing_runs(pretrained))
