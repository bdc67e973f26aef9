"""Runs of tests: empty, or trained and resumed on the CPU; what they log and save; class heads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isopix.finetuning.classifier import FineTuneModel
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.pretrain import train_recipe
from isopix.runs.resume import resume_run
from isopix.runs.start import TrainingStart
from isopix.runs.state import RunStatus
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder

CPU = torch.device("cpu")
SILENT = RunObserver()


class StopAt:
    """Asks to stop after some steps."""

    def __init__(self, steps: int):
        self.left = steps

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


def create_run(path: Path) -> RunFolder:
    """An empty run folder."""
    run = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    run.create_folders()
    return run


def train(
    what: TrainingStart | Recipe | str, out: Path, *words: str, observer: RunObserver = SILENT
) -> RunStatus:
    """Train in a new folder; a recipe, or that of a name with these settings, from scratch."""
    if isinstance(what, str):
        what = registry.resolve(what, settings=words).recipe
    start = TrainingStart(what) if isinstance(what, Recipe) else what
    return train_recipe(start, out, device=CPU, observer=observer)


def resume(run: Path, stop: Callable[[], bool] = lambda: False) -> RunStatus:
    """Continue a run to its end, or until it is asked to stop."""
    return resume_run(run, device=CPU, observer=RunObserver(stop=stop))


def newest(run: Path) -> checkpoint.Checkpoint:
    """The newest checkpoint."""
    found, _ = checkpoint.load_latest(run / "checkpoints", checkpoint.load_checkpoint)
    assert found is not None
    return found


def different_weights(run: Path, other: Path) -> list[str]:
    """The tensors of the newest checkpoints that differ, or that only one of them has."""
    ours, theirs = (all_tensors(newest(each)) for each in (run, other))
    return sorted(ours.keys() ^ theirs.keys()) or [
        name for name in ours if not torch.equal(ours[name], theirs[name])
    ]


def all_tensors(found: checkpoint.Checkpoint) -> dict[str, Tensor]:
    return {f"{group}/{name}": each for group, named in found.tensors.items() for name, each in named.items()}


def logged(run: Path, **values: object) -> list[dict[str, Any]]:
    """The records of the log that have these values."""
    return [record for record in read_log(run / "log.jsonl") if values.items() <= record.items()]


class FineTunedModel(NamedTuple):
    loaded: LoadedRun
    model: FineTuneModel
    classes: tuple[str, ...]


def load_finetuned(run: Path) -> FineTunedModel:
    """The best weights of a fine-tuned run, or the newest if none were selected, in evaluation mode."""
    loaded = load_run(run, device=CPU)
    return FineTunedModel(loaded, loaded.finetuned(run).eval(), loaded.classes)
