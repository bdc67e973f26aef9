"""inf and nan in the loss, a gradient, a weight, a moment or a batch: no checkpoint has them."""

import math
import random
import time
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs import training
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint
from isopix.train import evaluator
from isopix.train.train_step import NonFiniteError, TrainStep
from tests.trained import StopAt, different_weights, logged, newest, resume, train

STEPS = 40
WORDS = ["depth=1", "width=16", f"steps={STEPS}", "batch_size=4", "log_every=3", "checkpoint_every=9"]
WORDS += ["evaluate_every=20", "evaluate_images=8", "num_test_images=8", "data.limit=64"]


def recipe(*words: str) -> Recipe:
    return registry.resolve("igpt.digits", settings=[*WORDS, *words]).recipe


class Fault:
    """Puts a value into something at one step, once."""

    def __init__(self, where: str, step: int, value: float):
        self.where, self.step, self.value, self.done = where, step, value, False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        call = TrainStep.__call__

        def called(one: TrainStep, batch, *, step: int, lr_factor: float):
            if step != self.step or self.done:
                return call(one, batch, step=step, lr_factor=lr_factor)
            self.done = True
            batch, undo = getattr(self, self.where)(one, batch)
            try:
                return call(one, batch, step=step, lr_factor=lr_factor)
            finally:
                undo()

        patch.setattr(TrainStep, "__call__", called)

    def loss(self, one, batch):
        right = one.losses
        one.losses = lambda chunk: {name: each * self.value for name, each in right(chunk).items()}
        return batch, lambda: setattr(one, "losses", right)

    def gradient(self, one, batch):
        parameter = list(one.task.module.parameters())[-1]
        handle = parameter.register_hook(lambda gradient: gradient * self.value)
        return batch, handle.remove

    def weight(self, one, batch):
        with torch.no_grad():
            next(one.task.module.parameters()).view(-1)[0] = self.value
        return batch, lambda: None

    def moment(self, one, batch):
        for state in one.optimizer.state.values():
            state["exp_avg_sq" if self.value > 0 else "exp_avg"].view(-1)[0] = self.value
        return batch, lambda: None

    def batch(self, one, batch):
        return batch._replace(weights=batch.weights * self.value), lambda: None


FAULTS = ["loss", "gradient", "weight", "moment", "batch"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a fault."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(recipe(), out)
    return out


@pytest.fixture
def fault(request, monkeypatch: pytest.MonkeyPatch) -> Fault:
    chance = random.Random(request.param)
    kind, value = FAULTS[request.param % 5], chance.choice([math.nan, math.inf])
    found = Fault(kind, chance.randint(2, STEPS), value)  # there are no moments before the first update
    found.install(monkeypatch)
    return found


def checkpoints_are_finite(out: Path) -> bool:
    folders = list((out / "checkpoints").glob("step-*"))
    assert folders
    loaded = [checkpoint.load_checkpoint(folder).tensors for folder in folders]
    groups = [each for tensors in loaded for each in tensors.values()]
    return all(bool(torch.isfinite(tensor.float()).all()) for group in groups for tensor in group.values())


def notes_of_faults(out: Path) -> list[str]:
    return [each["text"] for each in logged(out, kind="note") if "not finite" in each["text"]]


FULL = [pytest.param(number, marks=pytest.mark.slow if number > 4 else []) for number in range(100)]


@pytest.mark.parametrize("fault", FULL, indirect=True)
def test_training_stops_before_a_checkpoint_has_it_and_resumes_without_a_trace(
    fault: Fault, tmp_path: Path, whole: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(NonFiniteError, match=r"not finite at step \d+; the last checkpoint is ") as error:
        train(recipe(), out)
    assert fault.done
    assert fault.step <= error.value.step <= fault.step + 9  # that of the next checkpoint at the latest
    assert checkpoints_are_finite(out)
    resume(out)
    assert different_weights(out, whole) == []


@pytest.mark.parametrize("policy", ["skip", "rollback"])
@pytest.mark.parametrize("fault", FULL, indirect=True)
def test_training_goes_on_and_says_so(fault: Fault, policy: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert train(recipe(f"train.on_nonfinite={policy}"), out).finished
    assert checkpoints_are_finite(out)
    notes = notes_of_faults(out)
    skips = policy == "skip" and fault.where in ("loss", "gradient", "batch")
    assert len(notes) == 1
    assert ("its update was skipped" if skips else "back to step") in notes[0]
    steps = [each["step"] for each in logged(out, kind="train")]
    assert steps == sorted(set(steps))


def test_a_rolled_back_run_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches that a rollback leaves out are left out after a stop, too."""
    settings = recipe("train.on_nonfinite=rollback", "log_every=1", "train.ema=0.5")
    for name, observer in (("whole", RunObserver()), ("stopped", RunObserver(stop=StopAt(30)))):
        with monkeypatch.context() as patch:
            Fault("batch", 14, math.nan).install(patch)
            status = train(settings, tmp_path / name, observer=observer)
    assert not status.finished
    resume(tmp_path / "stopped")
    assert newest(tmp_path / "stopped").records["state"]["skipped_batches"] == 14 - 9
    assert different_weights(tmp_path / "stopped", tmp_path / "whole") == []


def train_with(fault: Fault, out: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Train to the end through a fault, and return the notes about it."""
    fault.install(monkeypatch)
    assert train(recipe(*words), out).finished
    return notes_of_faults(out)


def test_a_rollback_waits_for_the_checkpoint_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = checkpoint.save_checkpoint

    def slowly(folder: Path, *arguments: Any) -> None:
        time.sleep(0.5 if folder.name.endswith("9") else 0)
        save(folder, *arguments)

    monkeypatch.setattr(checkpoint, "save_checkpoint", slowly)
    words = ("train.on_nonfinite=rollback", "train.async_save=true")
    [note] = train_with(Fault("batch", 10, math.nan), tmp_path / "run", monkeypatch, *words)
    assert "back to step 9" in note


def test_a_checkpoint_that_cannot_be_written_ends_the_run_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = checkpoint.save_checkpoint

    def full(folder: Path, *arguments: Any) -> None:
        if folder.name.endswith("9"):
            raise OSError("no space left")
        save(folder, *arguments)

    monkeypatch.setattr(checkpoint, "save_checkpoint", full)
    with pytest.raises(OSError, match="no space left"):
        train(recipe("train.async_save=true", "log_every=1", "checkpoint_every=9"), tmp_path / "run")
    assert 9 <= logged(tmp_path / "run", kind="train")[-1]["step"] < 18


def test_a_wrong_weight_costs_no_more_than_the_steps_since_the_last_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best weights may be those of an evaluation: with a policy that goes on, each has a checkpoint."""
    words = ("train.on_nonfinite=skip", "checkpoint_every=1000", "evaluate_every=10")
    [note] = train_with(Fault("weight", 15, math.nan), tmp_path / "run", monkeypatch, *words)
    assert "back to step 10" in note


def nan_once(patch: pytest.MonkeyPatch, module: ModuleType, number: int) -> None:
    """Let one evaluation of a split return nan, with finite weights."""
    right, calls = evaluator.evaluate_split, count(1)

    def evaluate(*arguments: Any, **options: Any) -> dict[str, float]:
        metrics = right(*arguments, **options)
        return dict.fromkeys(metrics, math.nan) if next(calls) == number else metrics

    patch.setattr(module, "evaluate_split", evaluate)


@pytest.mark.parametrize(("module", "number", "step"), [(evaluator, 2, 20), (training, 1, 40)])
def test_an_evaluation_that_is_not_finite_ends_the_run_and_what_is_saved_goes_on(
    module: ModuleType, number: int, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    nan_once(monkeypatch, module, number)
    with pytest.raises(NonFiniteError, match=f"is not finite at step {step}"):
        train(recipe(), tmp_path / "run")
    assert resume(tmp_path / "run").finished
    assert different_weights(tmp_path / "run", whole) == []


@pytest.mark.parametrize(("policy", "steps"), [("skip", [0, 40]), ("rollback", [0, 20, 40])])
def test_a_validation_loss_that_is_not_finite_follows_the_policy(
    policy: str, steps: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nan_once(monkeypatch, evaluator, 2)
    assert train(recipe(f"train.on_nonfinite={policy}"), tmp_path / "run").finished
    assert len(notes_of_faults(tmp_path / "run")) == 1
    assert [each["step"] for each in logged(tmp_path / "run", split="validation")] == steps
