"""Worker processes that decode images end with the command, however it ends, and never before it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isopix.storage import checkpoint
from tests.reliability.test_interrupt import WORDS, run_here, wait_for_step, weights

pytestmark = pytest.mark.integration

ENCODED = [*WORDS, "data.store=encoded", "data.workers=2"]
SECONDS = 20.0  # PyTorch's workers look for their parent every five


def _start(out: Path, *words: str) -> subprocess.Popen[str]:
    """Start a training in a process group of its own, as a shell does."""
    command = [sys.executable, "-m", "isopix", "pretrain", "igpt.digits", "--out", str(out), *ENCODED, *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def _members(group: int) -> set[int]:
    """The processes of a group that are running."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state != "Z":
            found.add(int(entry.name))
    return found


def _wait_until_gone(group: int) -> None:
    deadline = time.monotonic() + SECONDS
    while _members(group):
        assert time.monotonic() < deadline, "processes were left behind"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        run_here(patch, "pretrain", "igpt.digits", "--out", str(run), *WORDS, "data.store=pixels")
    return run


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_saves_and_leaves_no_process(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    out = tmp_path / "run"
    process = _start(out)
    wait_for_step(out, 30)
    assert len(_members(process.pid)) == 3, "the command and two workers"
    os.killpg(process.pid, sent)
    text = process.communicate(timeout=60)[1]
    assert process.returncode == 75, text
    assert "Traceback" not in text
    _wait_until_gone(process.pid)
    run_here(monkeypatch, "resume", str(out))
    expected, found = weights(whole), weights(out)
    assert all((found[name] == expected[name]).all() for name in expected)


def test_kill_9_leaves_no_worker_behind(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = _start(out)
    wait_for_step(out, 30)
    workers = _members(process.pid) - {process.pid}
    process.kill()
    process.communicate(timeout=60)
    assert len(workers) == 2
    _wait_until_gone(process.pid)
    assert checkpoint.load_latest(out / "checkpoints").checkpoint is not None


def test_a_worker_that_is_killed_ends_the_command_in_one_line(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = _start(out)
    wait_for_step(out, 30)
    os.kill((_members(process.pid) - {process.pid}).pop(), signal.SIGKILL)
    text = process.communicate(timeout=60)[1]
    assert process.returncode == 1, text
    assert "Traceback" not in text
    assert "worker" in text.splitlines()[-1]
    _wait_until_gone(process.pid)


FORGETFUL = """
from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig, load_dataset
data = load_dataset(DataConfig(store="encoded", rows=8, cols=8))
batches = Batches(data.train, batch_size=4, workers=2)
print(len(batches.batch(0)[0]))
"""


STUCK = """
import time
from isopix.data.batches import Prefetch

def read(step):
    if step:
        time.sleep(1000)
    return step

print(Prefetch(read, workers=2).batch(0))
"""


def test_a_program_ends_whose_workers_do_not() -> None:
    """As one that waits for a lock of another that was killed."""
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_program_that_does_not_close_its_batches_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("4\n", "")
