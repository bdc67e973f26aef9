"""Checkpoints that are written while training continues hold the state of their step."""

import threading
from pathlib import Path

import pytest
import torch

from isopix.data.batches import Batches
from isopix.recipes import registry
from isopix.runs import checkpoint_writer
from isopix.runs.pretrain import train_recipe
from isopix.runs.resume import resume_run
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint
from isopix.train.train_step import TrainStep

CPU = torch.device("cpu")
WORDS = ["depth=1", "width=16", "steps=9", "batch_size=4", "checkpoint_every=2", "data.limit=64"]
WORDS += ["evaluate_images=8", "num_test_images=8", "log_every=1"]


def folders(run: Path) -> dict[str, bytes]:
    paths = run.glob("checkpoints/step-*/*.safetensors")
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk that writes no checkpoint after step 0 until the event is set."""
    ready, save = threading.Event(), checkpoint.save_checkpoint

    def save_later(folder, *content):
        if not folder.name.endswith("-00000000"):
            assert ready.wait(20)
        save(folder, *content)

    monkeypatch.setattr(checkpoint_writer.checkpoint, "save_checkpoint", save_later)
    return ready


def test_a_checkpoint_holds_the_state_of_its_step(tmp_path: Path, slow_disk: threading.Event) -> None:
    """Training reaches step 3 before step 2 is written; later saves wait for it."""
    states: dict[str, dict[str, bytes]] = {}
    for name, word in (("at once", "async_save=false"), ("later", "async_save=true")):
        if name == "at once":
            slow_disk.set()

        def watch(record) -> None:
            if record["step"] == 3:
                slow_disk.set()

        recipe = registry.resolve("igpt.digits", assignments=[*WORDS, word]).recipe
        train_recipe(recipe, tmp_path / name, device=CPU, observer=RunObserver(record=watch))
        states[name] = folders(tmp_path / name)
        slow_disk.clear()
    assert states["at once"].keys() == states["later"].keys()
    assert states["at once"] == states["later"]
    assert len(states["later"]) == 4


def test_an_error_in_the_thread_is_raised_at_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, save, steps = threading.Event(), checkpoint.save_checkpoint, list[int]()

    def fail(folder, *content):
        if folder.name.endswith("-00000004"):
            failed.set()
            raise RuntimeError("the disk is full")
        save(folder, *content)

    def watch(record) -> None:
        steps.append(record["step"])
        if record["step"] == 5:
            assert failed.wait(20)

    monkeypatch.setattr(checkpoint_writer.checkpoint, "save_checkpoint", fail)
    recipe = registry.resolve("igpt.digits", assignments=[*WORDS, "async_save=true"]).recipe
    with pytest.raises(RuntimeError, match="the disk is full"):
        train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver(record=watch))
    assert steps[-1] <= 6
    assert checkpoint.load_latest(tmp_path / "run" / "checkpoints").checkpoint.records["state"]["step"] == 2


def test_a_folder_that_was_moved_is_not_created_again(tmp_path: Path) -> None:
    """Training ends at the next checkpoint, and continues from the one before where the folder is now."""

    def move(record) -> None:
        if record["kind"] == "train" and record["step"] == 5:
            (tmp_path / "run").rename(tmp_path / "moved")

    recipe = registry.resolve("igpt.digits", assignments=WORDS).recipe
    with pytest.raises(RuntimeError, match="run was moved or deleted; resume it where it is now"):
        train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver(record=move))
    assert [each.name for each in tmp_path.iterdir()] == ["moved"]
    assert resume_run(tmp_path / "moved", device=CPU, observer=RunObserver()).finished


def test_a_rollback_leaves_out_the_batches_since_the_checkpoint(
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
    recipe = registry.resolve("igpt.digits", assignments=[*WORDS, "on_nonfinite=rollback", "steps=8"]).recipe
    train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver())
    assert used == [0, 1, 2, 3, 4, 5, 6, 7, 8]
