"""Runs of tests: trained on the CPU, and loaded with a class head."""

from pathlib import Path
from typing import NamedTuple

import torch

from isopix.finetuning.classifier import FineTuneModel
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import TrainingStart
from isopix.runs.state import RunStatus
from isopix.runs.training_log import RunObserver

CPU = torch.device("cpu")
SILENT = RunObserver()


def train(
    what: TrainingStart | Recipe | str, out: Path, *words: str, observer: RunObserver = SILENT
) -> RunStatus:
    """Train in a new folder; a recipe, or that of a name with these settings, from scratch."""
    if isinstance(what, str):
        what = registry.resolve(what, settings=words).recipe
    start = TrainingStart(what) if isinstance(what, Recipe) else what
    return train_recipe(start, out, device=CPU, observer=observer)


class FineTunedModel(NamedTuple):
    loaded: LoadedRun
    model: FineTuneModel
    classes: tuple[str, ...]


def load_finetuned(run: Path, *, device: torch.device) -> FineTunedModel:
    """The best weights of a fine-tuned run, or the newest if none were selected, in evaluation mode."""
    loaded = load_run(run, device=device)
    return FineTunedModel(loaded, loaded.finetuned(run).eval(), loaded.classes)
