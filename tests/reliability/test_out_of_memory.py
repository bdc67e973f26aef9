"""Out of memory at a random step: the batch is computed in smaller parts, and its loss and update stay."""

import random
from pathlib import Path

import pytest
import torch

from isopix.runs.training_log import RunObserver
from isopix.train.train_step import OutOfMemoryError, TrainStep
from tests.trained import different_weights, logged, newest, resume, train

WORDS = ["depth=1", "width=16", "steps=12", "batch_size=12", "log_every=1", "checkpoint_every=4"]
WORDS += ["evaluate_every=20", "evaluate_images=8", "num_test_images=8", "data.limit=64", "precision=fp32"]
MESSAGES = [
    "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 1000000000000 bytes. Error code 12 (Cannot allocate memory)",
    "CUDA out of memory. Tried to allocate 20.00 GiB.\nSee documentation",
]


def losses(run: Path) -> list[float]:
    return [each["loss_nats"] for each in logged(run, kind="train")]


def limited(monkeypatch: pytest.MonkeyPatch, *, step: int, images: int, message: str) -> list[int]:
    """From a step on, chunks of more images do not fit; returns a list of the sizes that do."""
    call, sizes = TrainStep.__call__, list[int]()

    def called(one: TrainStep, batch, *, step: int, lr_factor: float, first: int = step):
        right = one.losses

        def limited_losses(chunk):
            if step >= first and len(chunk.targets) > images:
                raise torch.OutOfMemoryError(message) if "CUDA" in message else RuntimeError(message)
            sizes.append(len(chunk.targets))
            return right(chunk)

        one.losses = limited_losses
        try:
            return call(one, batch, step=step, lr_factor=lr_factor)
        finally:
            one.losses = right

    monkeypatch.setattr(TrainStep, "__call__", called)
    return sizes


@pytest.mark.parametrize("seed", range(4))
def test_the_same_losses_in_smaller_parts(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    train("igpt.digits", tmp_path / "whole", *WORDS)
    step, images = chance.randint(2, 12), chance.randint(1, 11)
    sizes = limited(monkeypatch, step=step, images=images, message=MESSAGES[seed % 2])
    train("igpt.digits", tmp_path / "small", *WORDS)
    assert losses(tmp_path / "small") == pytest.approx(losses(tmp_path / "whole"), abs=1e-6)
    assert max(sizes[-12 // images :]) <= images
    notes = [each["text"] for each in logged(tmp_path / "small", kind="note")]
    assert any(f"out of memory at step {step} with accumulate=1" in text for text in notes)
    weights = [newest(tmp_path / name).tensors["model"] for name in ("whole", "small")]
    torch.testing.assert_close(weights[1], weights[0], rtol=1e-4, atol=1e-5)


def test_parts_stay_small_after_a_resume_and_the_weights_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, step=3, images=4, message=MESSAGES[0])
    train("igpt.digits", tmp_path / "whole", *WORDS)
    steps: list[int] = []
    observer = RunObserver(record=lambda record: steps.append(record["step"]), stop=lambda: max(steps) >= 6)
    assert not train("igpt.digits", tmp_path / "stopped", *WORDS, observer=observer).finished
    monkeypatch.undo()  # there is more memory now
    resume(tmp_path / "stopped")
    assert newest(tmp_path / "whole").records["state"]["accumulate"] == 4
    assert different_weights(tmp_path / "stopped", tmp_path / "whole") == []


def test_too_little_memory_for_one_image_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, step=3, images=0, message=MESSAGES[1])
    with pytest.raises(OutOfMemoryError) as error:
        train("igpt.digits", tmp_path / "run", *WORDS)
    assert str(error.value).startswith("out of memory at step 3 with accumulate=12: CUDA out of memory.")
    assert "\n" not in str(error.value)
