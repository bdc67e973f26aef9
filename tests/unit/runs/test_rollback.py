"""A rollback leaves out the batches since the checkpoint."""

import json
from pathlib import Path

import pytest
import torch

from isopix.data.batches import Batches
from isopix.recipes import registry
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import prepare_finetune
from isopix.runs.training_log import RunObserver
from isopix.storage.log import read_log
from isopix.train.stopping import has_val_accuracy
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


def test_a_damaged_checkpoint_is_named_and_the_best_weights_are_those_that_are_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint of the best evaluation is damaged, so that training goes back before it."""
    out, gradients = tmp_path / "run", TrainStep._add_gradients
    steps: list[int] = []

    def spoil(self, images):
        losses = gradients(self, images)
        steps.append(1)
        if len(steps) == 8:
            weights = out / "checkpoints" / "step-00000006" / "model.safetensors"
            weights.write_bytes(weights.read_bytes()[:-1])
            next(p for p in self.task.module.parameters() if p.grad is not None).grad.fill_(torch.nan)
        return losses

    monkeypatch.setattr(TrainStep, "_add_gradients", spoil)
    words = ["steps=12", "evaluate_every=3", "checkpoint_every=5", "on_nonfinite=rollback", "patience=9"]
    words += ["evaluate_images=40", "optimizer.lr=0.01", "generative_weight=0", "seed=2"]
    recipe, _ = prepare_finetune("igpt.digits", settings=[*WORDS, *words])
    train_recipe(recipe, out, device=torch.device("cpu"), observer=RunObserver())
    records = read_log(out / "log.jsonl")
    notes = [each["text"] for each in records if each["kind"] == "note"]
    assert [text for text in notes if "skipped damaged checkpoint" in text and "step-00000006" in text]
    tested = next(each for each in records if each.get("split") == "test")
    best = json.loads((out / "best" / "state.json").read_text())["step"]
    assert tested["step"] == best
    accuracies = {each["step"]: each["accuracy"] for each in records if has_val_accuracy(each)}
    kept = any(text.startswith(f"the best weights stay those of step {best} from before") for text in notes)
    assert kept or accuracies[best] == max(accuracies.values())
