"""`isopix reproduce`: the experiments of the papers' tables and figures, measured next to published."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from isopix.core.choices import MFU
from isopix.core.verb import verb
from isopix.studies.papers.results import PlannedTrial, ProtocolList, ReproductionPlan, ReproductionResult
from isopix.verbs.options import DATASETS, DeviceLike, Settings
from isopix.verbs.pretrain import same_command

ProtocolName = Annotated[str, Parameter(help="Name of the protocol, such as igpt.table4.")]
Out = Annotated[
    Path, Parameter(help="Folder of trials and tables: new, empty, or that of the same setup to resume.")
]
Scale = Annotated[
    Literal["tiny", "small", "paper"],
    Parameter(
        help="tiny: minutes per network on two CPU cores; small: igpt.tiny and others; paper: as published."
    ),
]
Labeled = Annotated[
    str | Path | None, Parameter(help=f"Labeled dataset instead of those of the paper: {DATASETS}.")
]
Unlabeled = Annotated[
    str | Path | None,
    Parameter(help="Dataset of pre-training. Default: that of --data; at scale paper, ImageNet."),
]
Existing = Annotated[
    tuple[str, ...],
    Parameter(
        consume_multiple=True,
        negative="",
        help="Existing runs instead of pre-training, by network, e.g. igpt-l=runs/igpt-l.",
    ),
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

    `isopix reproduce list` lists all protocols, `isopix reproduce plan` the trials of one and their cost.
    Writes a table and a page into a folder of the protocol in --out; protocols with the same --out share
    their networks. A trial that fails leaves its cells empty. The same command resumes after an interruption;
    `settings` are those of pre-training.

    Example: isopix reproduce igpt.table4 --data cifar10 --scale small --out reproductions
    """
    from isopix.core.signals import Interrupted, with_resume_hint
    from isopix.studies.papers.catalog import find_protocol
    from isopix.studies.papers.reproduction import Reproduction
    from isopix.studies.papers.setup import Setup
    from isopix.studies.papers.write_up import write_table

    found, setup = find_protocol(protocol), Setup.of(scale, data, pretrain_data, settings, pretrained)
    trials = found.trials(setup)
    with with_resume_hint(out, same_command()), Reproduction.create(out, setup) as reproduction:
        for trial in trials:
            reproduction.state(trial)  # raises ValueError before anything is trained
        try:
            for trial in trials:
                reproduction.run(trial, TrialCommands(device))
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
    from isopix.studies.papers.catalog import all_protocols

    return ProtocolList(protocols={name: each.title for name, each in all_protocols().items()})


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
    from isopix.studies.papers.catalog import find_protocol
    from isopix.studies.papers.setup import Setup

    trials = find_protocol(protocol).trials(Setup.of(scale, data, pretrain_data, settings, pretrained))
    planned = tuple(PlannedTrial(each.name, len(each.trainings()), each.training_flops()) for each in trials)
    costs = device_costs(sum(each.training_flops for each in planned), "bf16")
    hours = next(each.hours for each in costs if each.device == "A100")
    return ReproductionPlan(protocol=protocol, trials=planned, hours=hours, mfu=MFU)


class TrialCommands:
    """The verbs that trials run, each of which returns the path of what it wrote."""

    def __init__(self, device: DeviceLike):
        self.device = device

    def train(self, recipe: Any, out: Path) -> Path:
        """Train a recipe in `out`, or resume the run that is there."""
        from isopix.verbs.pretrain import pretrain

        return self._train_or_resume(out, lambda: pretrain(recipe, out=out, device=self.device))

    def finetune(self, run: Path, out: Path, settings: Sequence[str]) -> Path:
        """Fine-tune a run in `out`, or resume the run that is there."""
        from isopix.verbs.finetune import finetune

        return self._train_or_resume(out, lambda: finetune(run, *settings, out=out, device=self.device))

    def evaluate(self, run: Path, mask_ensemble: int | None) -> Path:
        """Evaluate a fine-tuned run on all test images."""
        from isopix.verbs.evaluate import evaluate

        return _saved(evaluate(run, mask_ensemble=mask_ensemble, device=self.device).path)

    def probe(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        """Probe every layer; `options` are further arguments of `isopix.probe`."""
        from isopix.verbs.probe import probe

        settings = [f"iterations={options['iterations']}"] if "iterations" in options else []
        named = {name: value for name, value in options.items() if name != "iterations"}
        return _saved(probe(run, *settings, data=data, device=self.device, **named).path)

    def low_data(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        """Measure the error with few labels; `options` are further arguments of `isopix.low_data`."""
        from isopix.verbs.low_data import low_data

        named = {name: value for name, value in options.items() if name != "settings"}
        words = options.get("settings", ())
        return _saved(low_data(run, *words, data=data, device=self.device, **named).path)

    def _train_or_resume(self, out: Path, start: Callable[[], object]) -> Path:
        from isopix.storage.run_folder import RunFolder
        from isopix.verbs.pretrain import resume

        if RunFolder(out).has_checkpoints:
            resume(out, device=self.device)
        else:
            start()
        return out


def _saved(path: Path | None) -> Path:
    assert path is not None, "results of a run folder are saved in it"
    return path
