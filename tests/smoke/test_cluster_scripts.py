"""The scripts in examples/cluster run: on one machine, on two that are this one, and as a job."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.smoke.conftest import free_port
from tests.smoke.test_ranks import ENVIRONMENT, LIMIT, ROOT, SETTINGS, alone, assert_same, wait_for

__all__ = ["alone"]

pytestmark = pytest.mark.integration

SCRIPTS = ROOT / "examples" / "cluster"
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


def start(script: str, *words: str, env: Mapping[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", str(SCRIPTS / script), *words],
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
    command = ["shellcheck", *sorted(SCRIPTS.glob("*.sh"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_script_of_one_machine_resumes_a_stopped_run(alone: Path, tmp_path: Path) -> None:
    words, env = ("runs/x", *WORDS), environment(DEVICES="2")
    with start("one_node.sh", *words, env=env, folder=tmp_path) as stopped:
        wait_for(tmp_path / "runs/x", 3, stopped)
        stopped.send_signal(signal.SIGTERM)
        assert "stopped and saved" in output(stopped, 75)
    with start("one_node.sh", *words, env=env, folder=tmp_path) as resumed:
        assert ", from step " in output(resumed)
    assert_same(tmp_path / "runs/x", alone)


@pytest.mark.slow
def test_the_script_of_several_machines_makes_one_run(alone: Path, tmp_path: Path) -> None:
    env = environment(HEAD="localhost", NODES="2", DEVICES="1", PORT=str(free_port()))
    nodes = [start("several_nodes.sh", "runs/x", *WORDS, env=env, folder=tmp_path) for _ in range(2)]
    texts = [output(node) for node in nodes]
    assert sum(text.count("finished: runs/x") for text in texts) == 1
    assert_same(tmp_path / "runs/x", alone)


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
    with start("slurm.sh", "runs/x", env=env, folder=tmp_path) as job:
        text = output(job, code)
    assert text == (f"requeue {os.getpid()}\n" if code and preempted != "None" else "")


@pytest.mark.slow
def test_the_job_of_slurm_is_requeued_and_resumes(alone: Path, tmp_path: Path) -> None:
    env = job_environment(tmp_path)
    with start("slurm.sh", "runs/x", *WORDS, env=env, folder=tmp_path) as stopped:
        wait_for(tmp_path / "runs/x", 3, stopped)
        time.sleep(0.1)
        stopped.send_signal(signal.SIGUSR1)
        assert "stopped and saved" in stopped.communicate(timeout=LIMIT)[0]
    assert (tmp_path / "requeued").read_text() == f"requeue {os.getpid()}\n"
    with start(
        "slurm.sh", "runs/x", *WORDS, env={**env, "SLURM_RESTART_COUNT": "1"}, folder=tmp_path
    ) as again:
        assert ", from step " in output(again)
    assert_same(tmp_path / "runs/x", alone)
