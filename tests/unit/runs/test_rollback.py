"""A rollback leaves out the batches since the checkpoint."""

from pathlib import Path

import pytest
import torch

from isopix.data.batches import Batches
from isopix.recipes import registry
from isopix.runs.pretrain import train_recipe
from isopix.runs.training_log import RunObserver
from isopix.train.train_step import TrainStep

WORDS = ["depth=1", "width=16", "steps=8", "batch_size=4", "checkpoint_every=2", "data.limit=64"]
WORDS += ["evaluate_images=8", "num_test_images=8", "evaluate_every=100", "on_nonfinite=rollback"]


def test_the_batches_since_the_checkpoint_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    batch, gradients = Batches.batch, TrainStep._add_gradients

    def record(self, index):
        used.append(index)
        return batch(self, index)

    def spoil(self, images):
        losses = gradients(self, images)
        if used[-1] == 2:  # the third batch
            next(p for p in self.task.module.parameters() if p.grad is not None).grad.fill_(torch.nan)
        return losses

    monkeypatch.setattr(Batches, "batch", record)
    monkeypatch.setattr(TrainStep, "_add_gradients", spoil)
    recipe = registry.resolve("igpt.digits", assignments=WORDS).recipe
    train_recipe(recipe, tmp_path / "run", device=torch.device("cpu"), observer=RunObserver())
    assert used == [0, 1, 2, 3, 4, 5, 6, 7, 8]
