"""The script in examples/cluster runs as a job."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.smoke.test_ranks import ENVIRONMENT, LIMIT, ROOT, SETTINGS, alone, assert_same, wait_for

__all__ = ["alone"]

pytestmark = pytest.mark.integration

SCRIPT = ROOT / "examples" / "cluster" / "slurm.sh"
WORDS = [*SETTINGS, "--device", "cpu"]
# Programs of SLURM that do, for one machine and one job, what the script asks of them.
PROGRAMS = {
    "srun": 'shift; echo $$ > step.pid; exec "$@"',
    "scancel": 'test "$1 $2" = "--signal=TERM $SLURM_JOB_ID" && kill -TERM "$(cat step.pid)"',
    "scontrol": 'if [ "$1" = show ]; then echo localhost; else echo "$*" >> requeued; fi',
}


def environment(**changes: str) -> dict[str, str]:
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**ENVIRONMENT, "PATH": programs, **changes}


def start(*words: str, env: Mapping[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(SCRIPT), *words],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(process: subprocess.Popen[str], code: int = 0) -> str:
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == code, text
    return text


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing() -> None:
    command = ["shellcheck", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def job_environment(folder: Path, **changes: str) -> dict[str, str]:
    """The environment of a job on one machine, whose programs of SLURM are in the folder."""
    programs = folder / "programs"
    programs.mkdir()
    for name, body in {**PROGRAMS, **changes}.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "localhost"}
    env = environment(**job, SLURM_GPUS_ON_NODE="2")
    return {**env, "PATH": os.pathsep.join([str(programs), env["PATH"]])}


@pytest.mark.parametrize(
    ("preempted", "code"), [("2026-01-02T03:04:05", 0), ("None", 0), ("2026-01-02T03:04:05", 1), ("None", 1)]
)
def test_a_job_is_requeued_in_the_grace_time_of_a_preemption(
    preempted: str, code: int, tmp_path: Path
) -> None:
    answers = f'"show job") echo PreemptTime={preempted};; show*) echo localhost;; *) echo "$*";;'
    show = f'case "$1 $2" in {answers} esac'
    env = job_environment(tmp_path, srun=f"exit {code}", scontrol=show)
    with start("runs/x", env=env, folder=tmp_path) as job:
        text = output(job, code)
    assert text == (f"requeue {os.getpid()}\n" if code and preempted != "None" else "")


@pytest.mark.slow
def test_the_job_of_slurm_is_requeued_and_resumes(alone: Path, tmp_path: Path) -> None:
    env = job_environment(tmp_path)
    with start("runs/x", *WORDS, env=env, folder=tmp_path) as stopped:
        wait_for(tmp_path / "runs/x", 3, stopped)
        time.sleep(0.1)
        stopped.send_signal(signal.SIGUSR1)
        assert "stopped and saved" in stopped.communicate(timeout=LIMIT)[0]
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"
    with start("runs/x", *WORDS, env={**env, "SLURM_RESTART_COUNT": "1"}, folder=tmp_path) as again:
        assert ", from step " in output(again)
    assert_same(tmp_path / "runs/x", alone)
