"""Jobs in parallel: one that dies does not affect the others, and all can be asked to stop."""

import os
import signal
import time
from pathlib import Path

import pytest

from isopix.studies.executor import Slot, in_processes, run_all

SLOTS = [Slot("cpu", 1), Slot("cpu", 1)]


def touch_or_die(path: Path, device: str, threads: int) -> None:
    if path.name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if path.name == "exits":
        os._exit(3)
    path.write_text(f"{device} {threads}")


def wait(path: Path, device: str, threads: int) -> None:
    """Run until asked to stop."""
    path.touch()
    time.sleep(60)


@pytest.mark.integration
def test_a_process_that_is_killed_is_reported_and_the_others_finish(tmp_path: Path) -> None:
    ends: dict[str, str] = {}
    paths = [tmp_path / name for name in ("a", "dies", "b", "exits", "c")]
    submit = in_processes(touch_or_die, SLOTS)
    run_all(paths, submit, 2, ended=lambda p, reason: ends.update({p.name: reason}), stop=lambda: False)
    assert {name: ends[name] for name in "abc"} == dict.fromkeys("abc", "")
    assert ends["dies"] == "killed by SIGKILL, possibly out of memory"
    assert ends["exits"] == "ended with exit code 3"
    assert (tmp_path / "c").read_text() == "cpu 1"


@pytest.mark.integration
def test_after_a_stop_nothing_is_started_and_no_end_is_reported(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    began = time.monotonic()
    both = lambda: paths[0].exists() and paths[1].exists()  # noqa: E731
    run_all(paths, in_processes(wait, SLOTS), 2, ended=lambda p, reason: pytest.fail(reason), stop=both)
    assert time.monotonic() - began < 50
    assert not paths[2].exists()
