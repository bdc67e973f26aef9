"""Worker processes that decode images end with the command, however it ends, and never before it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reliability.commands import logged_step, newest_step

pytestmark = pytest.mark.integration

ENCODED = ["depth=1", "width=16", "steps=240", "batch_size=8", "log_every=1", "checkpoint_every=25"]
ENCODED += ["evaluate_every=80", "evaluate_images=8", "num_test_images=8"]
ENCODED += ["data.store=encoded", "data.workers=2"]
SECONDS = 20.0  # PyTorch's workers look for their parent every five


def _start(out: Path) -> subprocess.Popen[str]:
    """Start a training in a process group of its own, as a shell does, and wait until it is under way."""
    command = [sys.executable, "-m", "isopix", "pretrain", "igpt.digits", "--out", str(out), *ENCODED]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while logged_step(out) < 30:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert len(_members(process.pid)) == 3, "the command and two workers"
    return process


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


def test_kill_9_leaves_no_worker_behind(tmp_path: Path) -> None:
    process = _start(tmp_path / "run")
    process.kill()
    process.communicate(timeout=60)
    _wait_until_gone(process.pid)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_saves_and_leaves_no_process(tmp_path: Path, sent: int) -> None:
    process = _start(tmp_path / "run")
    os.killpg(process.pid, sent)
    printed, text = process.communicate(timeout=60)
    assert process.returncode == 75, text
    assert "Traceback" not in text
    assert f"stopped and saved at step {newest_step(tmp_path / 'run')}; " in " ".join(printed.split())
    _wait_until_gone(process.pid)


FORGETFUL = """
from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
data = load_dataset(DataConfig(store="encoded", rows=8, cols=8))
batches = Batches(data.train, batch_size=4, workers=2)
print(len(batches.batch(0)[0]))
"""


STUCK = """
import time
from isopix.data.batches import Prefetch

class Read:
    def __getitem__(self, step):
        if step:
            time.sleep(1000)
        return step

print(Prefetch(Read(), workers=2).batch(0))
"""


@pytest.mark.parametrize(("program", "printed"), [(STUCK, "0\n"), (FORGETFUL, "4\n")])
def test_a_program_ends_whose_workers_do_not_or_that_does_not_close_its_batches(
    program: str, printed: str
) -> None:
    """As with workers that wait for a lock of another that was killed."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (printed, "")
