"""`isopix reproduce`: the experiments of the papers' tables and figures, measured next to published."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from isopix.core.choices import MFU
from isopix.core.verb import VERBS, verb
from isopix.studies.results import PlannedTrial, ProtocolList, ReproductionPlan, ReproductionResult
from isopix.verbs.options import DATASETS, DeviceLike, Settings
from isopix.verbs.pretrain import same_command

ProtocolName = Annotated[str, "Name of the protocol, such as igpt.table4."]
Out = Annotated[Path, "Folder of trials and tables: new, empty, or that of the same setup to resume."]
Scale = Annotated[
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
    out: Out,
    scale: Scale = "tiny",
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


@verb(command="reproduce list")
def list_protocols() -> ProtocolList:
    """List the tables and figures of papers that `isopix reproduce` measures.

    Example: isopix reproduce list
    """
    from isopix.studies.papers.protocol import protocols

    return ProtocolList(protocols={name: each.title for name, each in protocols().items()})


@verb(command="reproduce plan")
def plan_reproduction(
    protocol: ProtocolName,
    *settings: Settings,
    scale: Scale = "tiny",
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
    scale: Scale,
    data: Labeled,
    pretrain_data: Unlabeled,
    pretrained: Existing,
) -> "tuple[PaperProtocol, Setup]":
    from isopix.studies.papers.protocol import Setup, absolute, existing_runs, find_protocol

    where = absolute(data), absolute(pretrain_data)
    return find_protocol(name), Setup(scale, *where, tuple(settings), existing_runs(pretrained))


if TYPE_CHECKING:
    from isopix.studies.papers.protocol import PaperProtocol, Setup
