"""The end of a SLURM job of a study is seen without SLURM's accounting."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import isopix
from isopix.studies import slurm


class Job:
    """A job of submitit that has no result yet, and whose state is unknown."""

    job_id = "7"

    def __init__(self, folder: Path):
        self.paths = SimpleNamespace(result_pickle=folder / "result", stdout=folder / "7_log.out")

    def done(self) -> bool:
        return self.paths.result_pickle.exists()

    def exception(self) -> None:
        assert self.done(), "submitit would wait for ever"

    def cancel(self, *, check: bool) -> None:
        del check


@pytest.fixture(autouse=True)
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file whose lines are SLURM's queue; SLURM does not answer without it."""
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nexec cat {tmp_path}/queue\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 0.0)
    return tmp_path / "queue"


def test_a_job_that_left_the_queue_without_a_result_has_failed(tmp_path: Path, queue: Path) -> None:
    handle = slurm.SlurmHandle(Job(tmp_path), slurm.Queue())
    assert handle.poll() is None  # SLURM does not answer
    queue.write_text("6\n7\n")
    assert handle.poll() is None
    queue.write_text("6\n")
    assert handle.poll() == f"job 7: ended without a result; its output: {tmp_path}/7_log.out"


def test_a_job_with_a_result_has_ended(tmp_path: Path, queue: Path) -> None:
    queue.write_text("7\n")
    handle = slurm.SlurmHandle(Job(tmp_path), slurm.Queue())
    (tmp_path / "result").touch()
    assert handle.poll() == ""


def test_a_result_may_be_late_but_not_that_of_a_canceled_job(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "RESULT_SECONDS", 60.0)
    queue.write_text("")
    handle = slurm.SlurmHandle(Job(tmp_path), slurm.Queue())
    assert handle.poll() is None
    handle.stop()
    assert handle.poll() is not None


@pytest.mark.parametrize("name", ["nodes", "gpus_per_node", "tasks_per_node"])
def test_a_trial_is_one_process(name: str, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    with pytest.raises(ValueError, match=f"{name} is 2; a trial is one process"):
        isopix.study_inductive_bias(out=tmp_path / "study", trials="conv-continuous-1", slurm=[f"{name}=2"])
