"""`isopix reproduce`: train and compare networks, as the papers did."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from isopix.core.choices import MFU, Count
from isopix.core.config import changed, config
from isopix.core.verb import VERBS, Flat, verb
from isopix.studies.inductive_bias.results import StudyResult
from isopix.studies.results import PlannedTrial, ReproductionPlan, ReproductionResult
from isopix.studies.scaling.results import BaselinesResult, ScalingResult, SpeedResult
from isopix.verbs.options import DeviceLike, Settings
from isopix.verbs.pretrain import same_command

if TYPE_CHECKING:
    from isopix.recipes.recipe import Recipe
    from isopix.studies.papers.protocol import PaperProtocol, StudyKind

Name = Annotated[str, "Name from `isopix list protocols`."]
Words = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]


@config
class ReproduceConfig:
    """Options of `isopix reproduce`; a study has others than tables and figures."""

    out: Path | None = None
    """Folder of trials and results: new, empty, or the folder of the experiment to resume."""
    plan: bool = False
    """Show the trials and their cost; write nothing."""
    scale: Literal["tiny", "small", "paper"] | None = None
    """tiny: minutes on two CPU cores; small: many hours; paper: as published. Default: tiny."""
    data: str | Path | None = None
    """Labeled dataset instead of the paper's datasets: files, a folder, or a name such as cifar10."""
    pretrain_data: str | Path | None = None
    """Dataset for pre-training. Default: as --data; at scale paper, ImageNet."""
    limit: Count | None = None
    """Use only N random images of each split, equally many of each class."""
    pretrained: Words = ()
    """Existing runs instead of pre-training, by network, e.g. igpt-l=runs/igpt-l."""
    trials: str = "*"
    """Name patterns of the trials of a study, e.g. `conv-*` or `*-1,*-3`. Default: all trials."""
    seeds: Count | None = None
    """Number of seeds per trial of a study. Default: by scale."""
    probe: str | None = None
    """Probe method of a study: adam (the paper's), ridge, lbfgs, sgd or knn. Default: by scale."""
    jobs: Count | None = None
    """Number of parallel trials of a study. Default: one per CPU core or GPU; `speed`: always one."""
    report_only: bool = False
    """Write the figures and the page of a study from existing results; do not train."""


DEFAULT_REPRODUCE = ReproduceConfig()
OF_TABLES = ("pretrain_data", "pretrained")
OF_STUDY = ("trials", "seeds", "probe", "jobs", "report_only")


@verb()
def reproduce(
    protocol: Name,
    *settings: Settings,
    config: Flat[ReproduceConfig] = DEFAULT_REPRODUCE,
    device: DeviceLike = "auto",
) -> ReproductionResult | StudyResult | ScalingResult | BaselinesResult | SpeedResult | ReproductionPlan:
    """Run the experiment of a table, figure or study of a paper, and show measured next to published numbers.

    Writes tables, figures and a page. Tables and figures with the same --out share their networks; `settings`
    apply to every network. The same command resumes after an interruption and retries failed trials.

    Example: isopix reproduce igpt.table4 --data cifar10 --scale small --out reproductions
    """
    from isopix.studies.papers.protocol import STUDIES, find_protocol

    study = STUDIES.get(protocol)
    foreign, owner = (OF_TABLES, "tables and figures") if study else (OF_STUDY, " and ".join(STUDIES))
    if wrong := [name for name in changed(config) if name in foreign]:
        raise ValueError(f"{wrong[0]} is an option of {owner}, not of {protocol}")
    if config.out is None and not config.plan:
        raise ValueError("out is missing: the folder of trials and results")
    out = config.out or Path()
    settings += (f"data.limit={config.limit}",) if config.limit else ()
    if study:
        return _study(study, settings, config, out, device)
    return _table(find_protocol(protocol), settings, config, out, device)


def _table(
    found: "PaperProtocol", settings: Words, config: ReproduceConfig, out: Path, device: DeviceLike
) -> ReproductionResult | ReproductionPlan:
    from isopix.core.signals import with_resume_hint
    from isopix.studies.papers.protocol import Setup, absolute, existing_runs
    from isopix.studies.papers.reproduction import run_protocol
    from isopix.studies.papers.trials import Probe

    def run_verb(command: str, *given: object, **options: object) -> Path:
        return Path(VERBS[command].function(*given, device=device, limit=config.limit, **options).path)

    data, pretrain_data = absolute(config.data), absolute(config.pretrain_data)
    setup = Setup(config.scale or "tiny", data, pretrain_data, settings, existing_runs(config.pretrained))
    trials = found.trials(setup)
    for each in trials:
        if isinstance(each, Probe):
            each.check_labels(config.limit)
    if config.plan:
        planned = [PlannedTrial(each.name, len(each.trainings()), each.training_flops()) for each in trials]
        recipes = [recipe for each in trials for recipe in each.trainings()]
        return _plan(found.name, planned, recipes, device)
    with with_resume_hint(out, same_command()):
        return run_protocol(found, setup, out, run_verb)


def _study(
    kind: "StudyKind", settings: Words, config: ReproduceConfig, out: Path, device: DeviceLike
) -> StudyResult | ScalingResult | BaselinesResult | SpeedResult | ReproductionPlan:
    from isopix.core.signals import with_resume_hint
    from isopix.studies.papers.protocol import absolute
    from isopix.studies.study import run_study

    if config.report_only:
        others = [each for each in changed(config) if each not in ("out", "report_only")]
        if others := others + ["settings"] * bool(settings):
            raise ValueError(f"report_only writes the study as it is; leave out {', '.join(others)}")
        return kind.open(out).write_up()
    scale, data, seeds = config.scale or kind.scale_in(out), absolute(config.data), config.seeds
    planned = kind.planned(
        scale, data=data, pattern=config.trials, seeds=seeds, settings=settings, probe=config.probe
    )
    if config.plan:
        trials = kind(out, planned).trials
        planned_trials = [PlannedTrial(each.name, 1, each.training_flops) for each in trials]
        return _plan(kind.name, planned_trials, [each.recipe for each in trials], device)
    with with_resume_hint(out, same_command()):
        study = run_study(kind, out, planned, jobs=config.jobs, device=device)
        return study.write_up()


def _plan(
    protocol: str, trials: Sequence[PlannedTrial], recipes: Sequence["Recipe"], device: DeviceLike
) -> ReproductionPlan:
    from isopix.core.device import describe_device, peak_flops, select_device
    from isopix.recipes.cost import device_costs, matmul_throughput

    flops, where, here = sum(each.training_flops for each in trials), select_device(device), 0.0
    for recipe in recipes[:1]:  # none if all networks are existing runs
        precision = recipe.train.precision_on(where)
        speed = peak_flops(where, precision) or matmul_throughput(where, precision, recipe.model.width)
        here = flops / (MFU * speed) / 3600
    [hours] = [each.hours for each in device_costs(flops, "bf16") if each.device == "A100"]
    own = describe_device(where)
    return ReproductionPlan(
        protocol=protocol, trials=tuple(trials), hours=hours, device=own, device_hours=here, mfu=MFU
    )
