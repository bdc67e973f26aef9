"""Ctrl-C, a batch system's signal and kill -9 at the prompt: the next command ends with the same weights."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from isopix.cli.main import main
from isopix.storage import checkpoint, log

pytestmark = pytest.mark.integration

WORDS = [
    "depth=1",
    "width=16",
    "steps=240",
    "batch_size=8",
    "log_every=1",
    "checkpoint_every=25",
    "evaluate_every=80",
    "evaluate_images=8",
    "num_test_images=8",
]


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "isopix", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_here(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run a command to its end in this process, which saves the seconds that another takes to start."""
    monkeypatch.setattr(sys, "argv", ["isopix", *words])
    main()


def wait_for_step(run: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        file = run / "log.jsonl"
        if file.exists() and any(each["step"] >= step for each in log.read_log(file)):
            return
        time.sleep(0.02)
    pytest.fail(f"step {step} was not reached")


def weights(run: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load_latest(run / "checkpoints").checkpoint.tensors["model"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        run_here(patch, "pretrain", "igpt.digits", "--out", str(run), *WORDS)
    return run


# test_kills.py sends SIGTERM and SIGUSR1 to a training process in the fast suite, too, and test_study.py in
# tests/smoke SIGTERM to a command.
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, marks=pytest.mark.slow),
    ],
)
def test_the_next_command_ends_with_the_same_weights(
    tmp_path: Path, uninterrupted: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with start("pretrain", "igpt.digits", "--out", str(run), *WORDS) as process:
        wait_for_step(run, 40)
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 75, err
        step = int(checkpoint.load_latest(run / "checkpoints").checkpoint.path.name.removeprefix("step-"))
        words = " ".join(out.split())
        assert f"stopped and saved at step {step}; resume with: isopix resume {run}" in words
    run_here(monkeypatch, "resume", str(run))
    ours, whole = weights(run), weights(uninterrupted)
    assert ours.keys() == whole.keys()
    assert all(torch.equal(ours[name], whole[name]) for name in ours)
    steps = [each["step"] for each in log.read_log(run / "log.jsonl") if each["kind"] == "train"]
    assert steps == list(range(1, 241))
