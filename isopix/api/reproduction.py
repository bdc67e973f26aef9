"""Reproduce the tables and figures of the papers from Python: reproduce, and plan_reproduction."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from isopix.api import evaluation, few_labels
from isopix.api.arguments import PathLike, checked
from isopix.core.device import DeviceLike
from isopix.recipes.recipe import Recipe
from isopix.storage.run_folder import RunFolder
from isopix.studies.protocols import igpt, patchformer, vit  # noqa: F401  registers them
from isopix.studies.protocols.protocol import find_protocol
from isopix.studies.protocols.reproduction import Reproduction, TrialState
from isopix.studies.protocols.setup import ProtocolScale, Setup
from isopix.studies.protocols.trials import Commands, ProtocolTrial
from isopix.studies.protocols.write_up import ProtocolTable, write_table
from isopix.verbs.evaluate import evaluate
from isopix.verbs.finetune import finetune
from isopix.verbs.pretrain import pretrain, resume

TrialProgress = Callable[[str, TrialState], None]  # called with the name of each trial that has ended


class PlannedTrial(NamedTuple):
    """A trial: its name, the number of its trainings, and their FLOPs."""

    name: str
    trainings: int
    training_flops: int


@checked
def reproduce(
    protocol: str,
    *,
    out: PathLike,
    scale: ProtocolScale = "tiny",
    data: PathLike | None = None,
    pretrain_data: PathLike | None = None,
    pretrained: Sequence[str] = (),
    overrides: Sequence[str] = (),
    device: DeviceLike = "auto",
    progress: TrialProgress | None = None,
) -> ProtocolTable:
    """Run the experiments of a table or figure, and write the measured numbers next to the published ones.

    `protocol` is a name such as igpt.table4. `data` are labeled images instead of those of the paper,
    `pretrain_data` the images of pre-training if they are others, `overrides` settings of pre-and
    `pretrained` existing runs, as in `igpt-l=runs/igpt-l`, by the name of the network that they replace.
    Trials that are done are not repeated, also for other protocols with the same folder; a trial that fails
    leaves its cells empty. Raises ValueError for wrong arguments and for a folder of another setup,
    Interrupted if asked to stop; called again, it continues.
    """
    found = find_protocol(protocol)
    setup = _setup(scale, data, pretrain_data, pretrained, overrides)
    trials = found.trials(setup)
    _check_names(setup, trials)
    commands: Commands = _Api(device)
    with Reproduction.create(Path(out), setup) as reproduction:
        for trial in trials:
            reproduction.state(trial)  # raises ValueError before anything is trained
        for trial in trials:
            state = reproduction.run(trial, commands)
            if progress is not None:
                progress(trial.name, state)
        return write_table(found, reproduction)


@checked
def plan_reproduction(
    protocol: str,
    *,
    scale: ProtocolScale = "tiny",
    data: PathLike | None = None,
    pretrain_data: PathLike | None = None,
    pretrained: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> list[PlannedTrial]:
    """Return the trials that `reproduce` would run, with their cost; nothing is written."""
    setup = _setup(scale, data, pretrain_data, pretrained, overrides)
    trials = find_protocol(protocol).trials(setup)
    _check_names(setup, trials)
    return [PlannedTrial(each.name, len(each.trainings()), each.training_flops()) for each in trials]


@dataclass(frozen=True)
class _Api:
    """The commands of trials, by the Python functions of the same names."""

    device: DeviceLike

    def train(self, recipe: Recipe, out: Path) -> Path:
        self._train_or_resume(out, lambda: pretrain(recipe, out=out, device=self.device))
        return out

    def finetune(self, run: Path, out: Path, settings: Sequence[str]) -> Path:
        self._train_or_resume(
            out,
            lambda: finetune(run, *settings, out=out, device=self.device),
        )
        return out

    def evaluate(self, run: Path, mask_ensemble: int | None) -> Path:
        found = evaluate(run, mask_ensemble=mask_ensemble, device=self.device)
        return _saved(found.path)

    def probe(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        return _saved(evaluation.probe(run, data=data, device=self.device, **options).path)

    def low_data(self, run: Path, data: str | None, options: Mapping[str, Any]) -> Path:
        found = few_labels.low_data(run, data=data, device=self.device, **options)
        return _saved(found.path)

    def _train_or_resume(self, out: Path, start: Callable[[], object]) -> None:
        if RunFolder(out).has_checkpoints:
            resume(out, device=self.device)
        else:
            start()


def _setup(
    scale: ProtocolScale,
    data: PathLike | None,
    pretrain_data: PathLike | None,
    pretrained: Sequence[str],
    overrides: Sequence[str],
) -> Setup:
    """Return the setup, with absolute paths."""
    runs = dict[str, str]()
    for word in pretrained:
        name, equals, path = word.partition("=")
        if not equals:
            raise ValueError(f"pretrained is '{word}'; write NAME=RUN, as in igpt-l=runs/igpt-l")
        runs[name] = str(Path(path).resolve())
    return Setup(scale, _source(data), _source(pretrain_data), tuple(overrides), runs)


def _source(data: PathLike | None) -> str | None:
    if data is None:
        return None
    return str(Path(data).resolve()) if Path(data).exists() else os.fspath(data)


def _check_names(setup: Setup, trials: Sequence[ProtocolTrial]) -> None:
    """Raises ValueError for an existing run of a network that the protocol does not have."""
    known = [each.name for each in trials if not each.needs]
    for name in setup.pretrained:
        if name not in known:
            raise ValueError(f"pretrained names network '{name}'; this protocol has: {', '.join(known)}")


def _saved(path: Path | None) -> Path:
    assert path is not None, "results of a run folder are saved in it"
    return path
