"""A fine-tuned run, loaded with its class head."""

from pathlib import Path
from typing import NamedTuple

import torch

from isopix.finetuning.classifier import FineTuneModel
from isopix.runs.load import LoadedRun, load_run


class FineTunedModel(NamedTuple):
    loaded: LoadedRun
    model: FineTuneModel
    classes: tuple[str, ...]


def load_finetuned(run: Path, *, device: torch.device) -> FineTunedModel:
    """The best weights of a fine-tuned run, or the newest if none were selected, in evaluation mode."""
    loaded = load_run(run, device=device)
    return FineTunedModel(loaded, loaded.finetuned(run).eval(), loaded.classes)
