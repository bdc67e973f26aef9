"""A job that SLURM preempts with a grace time is requeued; one that is canceled is not."""

import os
import signal
from pathlib import Path

import pytest

from isopix.core import slurm as job

pytest.importorskip("submitit")
STARTED, BEFORE, AFTER = "2026-01-02T03:04:05", "2026-01-02T03:00:00", "2026-01-02T04:00:00"


@pytest.mark.parametrize(
    ("state", "preempted", "requeued"),
    [
        ("RUNNING", AFTER, True),
        ("RUNNING", "None", False),  # another task of the job has failed
        ("RUNNING", BEFORE, False),  # before its last requeue
        ("COMPLETING", AFTER, False),  # without a grace time: SLURM requeues it
        ("CANCELLED", "None", False),
    ],
)
def test_only_a_job_in_its_grace_time_is_handed_to_submitit_after_sigterm(
    state: str, preempted: str, requeued: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = f"JobId=7 JobName=isopix\n   JobState={state} Reason=None\n   StartTime={STARTED} EndTime=x"
    script = f"#!/bin/sh\ntest \"$*\" = 'show job 7' && echo '{fields}\n   PreemptTime={preempted}'\n"
    (tmp_path / "scontrol").write_text(script)
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(job, "PREEMPTION_SECONDS", 0.0)
    received: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: received.append(number))
    try:
        job.requeue()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert received == [signal.SIGUSR2] * requeued


def test_the_number_of_requeues_is_the_one_given_or_many(tmp_path: Path) -> None:
    given = [job.job_executor(tmp_path, each, cluster="local") for each in ({"max_num_timeout": 7}, {})]
    assert [each._executor.max_num_timeout for each in given] == [7, job.NUM_REQUEUES]
