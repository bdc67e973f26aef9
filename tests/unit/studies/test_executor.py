"""Jobs in parallel: one that dies does not affect the others, all can be asked to stop, and the end of a
SLURM job is seen without SLURM's accounting.
"""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from isopix.core import slurm
from isopix.core.slurm import Queue, SlurmJob, in_slurm
from isopix.studies.executor import Slot, in_processes, run_all

SLOTS = [Slot("cpu", 1), Slot("cpu", 1)]


def touch_or_die(path: Path, device: str, threads: int | None) -> None:
    if path.name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if path.name == "exits":
        os._exit(3)
    path.write_text(f"{device} {threads}")


def wait(path: Path, device: str, threads: int | None) -> None:
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


@pytest.mark.integration
@pytest.mark.filterwarnings("default")
def test_submitit_jobs_end_as_processes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use submitit's local executor."""
    pytest.importorskip("submitit")
    folders = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))  # where a job finds this file
    ends: dict[str, str] = {}
    submit = in_slurm(touch_or_die, tmp_path / "jobs", {"timeout_min": 1}, cluster="local")
    paths = [tmp_path / name for name in ("a", "dies", "b")]
    run_all(paths, submit, 2, ended=lambda p, reason: ends.update({p.name: reason}), stop=lambda: False)
    assert (ends["a"], ends["b"], (tmp_path / "b").read_text()) == ("", "", "auto None")
    assert ends["dies"].startswith("job ")


class Submitted:
    """A job of submitit that has no result yet, and whose state is unknown."""

    job_id = "7"

    def __init__(self, folder: Path):
        self.paths = SimpleNamespace(result_pickle=folder / "result", stdout=folder / "7_log.out")

    def exception(self) -> None:
        assert self.paths.result_pickle.exists(), "submitit would wait for ever"

    def cancel(self, *, check: bool) -> None:
        del check


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose lines are SLURM's queue; SLURM does not answer without it."""
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nexec cat {tmp_path}/queue\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.0)
    return tmp_path / "queue"


def test_a_job_that_left_the_queue_without_a_result_has_failed(tmp_path: Path, queue: Path) -> None:
    job = SlurmJob(Submitted(tmp_path), Queue())
    assert job.poll() is None  # SLURM does not answer
    queue.write_text("6\n7\n")
    assert job.poll() is None
    queue.write_text("6\n")
    assert job.poll() == f"job 7: ended without a result; its output: {tmp_path}/7_log.out"
    queue.write_text("7\n")
    (tmp_path / "result").touch()
    assert job.poll() == ""


def test_a_result_may_be_late_but_not_that_of_a_canceled_job(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 60.0)
    queue.write_text("")
    job = SlurmJob(Submitted(tmp_path), Queue())
    assert job.poll() is None
    job.stop()
    assert job.poll() is not None
