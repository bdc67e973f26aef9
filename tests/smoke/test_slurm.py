"""Commands as jobs of submitit: on this machine, and through SLURM where there is a cluster."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.smoke.conftest import Run, done
from tests.smoke.test_ranks import ENVIRONMENT, SETTINGS, assert_same, command, last_step, wait_until

pytestmark = pytest.mark.integration

submitit = pytest.importorskip("submitit")
LOCAL = ("--slurm", "cluster=local", "timeout_min=10")
LONG = ("steps=80", "evaluate_every=40", "checkpoint_every=40")


def submit(folder: Path, *words: str) -> str:
    """Submit a command whose paths are relative to the folder; return the job's number."""
    printed = folder / "printed"
    with printed.open("w") as file:  # a pipe would stay open in the job
        subprocess.run(command(*words), cwd=folder, env=ENVIRONMENT, stdout=file, check=True)
    first, watch, cancel = printed.read_text().splitlines()
    job = first.split()[2].rstrip(":")
    assert first == f"submitted job {job}: isopix {' '.join(words)}"
    assert (watch.split(f"/{job}_")[0], cancel.split()[-1]) == (
        f"watch with: tail -F {folder / words[words.index('--out') + 1]}.slurm",
        job,
    )
    return job


def tasks(job: str) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{job}/task/{job}/children").read_text().split()]
    except OSError:
        return []


def wait_for_job(job: str, log: Path, text: str = "Exiting after successful completion") -> str:
    wait_until(lambda: log.exists() and text in log.read_text())
    wait_until(lambda: not tasks(job))
    return log.read_text()


def weights(run: Path) -> dict[str, bytes]:
    folder = run / "checkpoints" / "step-00000080"
    return {each.name: each.read_bytes() for each in folder.glob("*.safetensors")}


def test_a_job_that_is_stopped_in_time_is_requeued_and_its_run_equals_an_undisturbed_one(
    isopix: Run, tmp_path: Path
) -> None:
    words = ("pretrain", *SETTINGS, *LONG, "--device", "cpu", "--out")
    job = submit(tmp_path, *words, "runs/stopped", *LOCAL)
    wait_until(lambda: last_step(tmp_path / "runs/stopped") >= 3)
    [task] = tasks(job)
    os.kill(task, signal.SIGUSR2)
    done(isopix(*words, "runs/undisturbed"))
    log = wait_for_job(job, tmp_path / "runs/stopped.slurm" / f"{job}_0_log.out")
    resume = "resume with: isopix resume runs/stopped --device cpu --slurm cluster=local timeout_min=10"
    assert resume in log
    assert log.count("Requeued job") == 1
    assert ", from step " in log
    assert weights(tmp_path / "runs/stopped") == weights(tmp_path / "runs/undisturbed") != {}


@pytest.mark.slow
def test_two_tasks_train_what_one_process_does_and_stop_after_the_same_step(tmp_path: Path) -> None:
    alone, words = tmp_path / "alone", ("pretrain", *SETTINGS, "--device", "cpu")
    subprocess.run(command(*words, "--out", str(alone)), check=True, env=ENVIRONMENT, capture_output=True)
    job = submit(tmp_path, *words, "--out", "runs/two", *LOCAL, "tasks_per_node=2")
    wait_until(lambda: last_step(tmp_path / "runs/two") >= 3)
    for task in tasks(job):
        os.kill(task, signal.SIGUSR2)
    text = wait_for_job(job, tmp_path / "runs/two.slurm" / f"{job}_0_log.out")
    assert "2 × cpu" in text
    assert text.count("Requeued job") == 1
    assert_same(tmp_path / "runs/two", alone)


def test_a_failure_in_the_job_is_one_line_and_no_result(tmp_path: Path) -> None:
    job = submit(tmp_path, "pretrain", *SETTINGS, "--device", "cuda:7", "--out", "runs/x", *LOCAL)
    text = wait_for_job(job, tmp_path / "runs/x.slurm" / f"{job}_0_log.out", "isopix: ")
    assert "Traceback" not in text
    assert "cuda:7" in text
    assert not (tmp_path / "runs/x").exists()


OWN = ["data.source=nowhere", "--plugin none.py", "--devices 8"]  # words of the command, not of the job


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (OWN[0], "no file or folder 'nowhere'"),
        (OWN[1], "--plugin none.py is not a file"),
        (OWN[2], "--devices is for this machine; with --slurm write gpus_per_node=8"),
        ("tasks_per_node=3", "batch_size 16 is not a multiple of 3 processes"),
        ("timout_min=9", "submitit does not accept these parameters: Unknown argument 'timout_min'"),
        ("gpus_per_node=8 tasks_per_node=2", "tasks_per_node is 2 and gpus_per_node 8; each process"),
        ("cluster=moon", "cluster is 'moon'; allowed: slurm, local"),
        ("partition", "'partition' is not a setting; write name=value"),
    ],
)
def test_what_is_wrong_is_said_before_submission(isopix: Run, words: str, expected: str) -> None:
    own, job = (words.split(), []) if words in OWN else ([], words.split())
    code, out, err = isopix("pretrain", *SETTINGS, *own, "--out", "runs/x", *LOCAL, *job)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err
    assert not any(Path("runs/x.slurm").glob("*_log.out"))


def test_a_folder_that_is_taken_is_refused_before_submission(isopix: Run) -> None:
    Path("taken").mkdir()
    Path("taken/file").write_text("")
    for words in (
        ["pretrain", "igpt.digits"],
        ["finetune", "igpt.digits-trained"],
        ["pretrain", "igpt.digits", "lr=search"],
    ):
        code, _, err = isopix(*words, "data.source=digits", "--out", "taken", *LOCAL)
        assert (code, "folder taken is not empty" in err) == (2, True), err
    code, _, err = isopix("resume", "nowhere", *LOCAL)
    assert (code, err) == (2, "isopix: no folder nowhere\n")


def test_without_slurm_the_error_is_one_line(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    code, _, err = isopix("pretrain", *SETTINGS, "--out", "x", "--slurm", "partition=gpu")
    assert (code, err) == (1, "isopix: SLURM's sbatch and srun are not on the PATH; submit where they are\n")
