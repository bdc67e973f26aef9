"""A command in several processes, which end together; and as a job: its parameters, and what is printed."""

import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isopix.cli import launch


@pytest.mark.parametrize(
    ("scripts", "sent", "code", "message"),
    [
        (["exit 0", "exit 0"], None, 0, ""),
        (["exit 75", "sleep 0.3"], None, 75, ""),  # stopped and saved, as rank 0 has said
        (["sleep 60", "exit 3"], None, 3, ""),
        (["sleep 60", "kill -KILL $$"], None, 1, "isopix: rank 1 was ended by SIGKILL\n"),
        (["sleep 60"] * 2, 15, 75, "isopix: stopped by SIGTERM; the same command starts again\n"),
        (["trap 'exit 75' USR1; sleep 60 & wait", "sleep 60"], 10, 75, ""),
    ],
)
def test_ranks_end_together_as_the_first_that_fails_or_as_rank_0(
    scripts: list[str],
    sent: int | None,
    code: int,
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ranks = launch.Ranks()
    ranks.processes = [subprocess.Popen(["sh", "-c", each]) for each in scripts]
    time.sleep(0.2)
    ranks.signals += [] if sent is None else [sent]
    assert ranks.wait() == code
    assert None not in [each.poll() for each in ranks.processes]
    assert capfd.readouterr().err == message


def test_ctrl_c_of_a_terminal_reaches_ranks_from_the_launcher_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "true")
    with launch._start(0, 2, 0) as rank:
        assert os.getpgid(rank.pid) == rank.pid


@pytest.mark.parametrize(
    ("given", "expected", "ranks"),
    [
        ([], {"name": "isopix", "stderr_to_stdout": True, "tasks_per_node": 1}, 1),
        (
            ["name=mine", "stderr_to_stdout=false", "nodes=2", "gpus_per_node=4"],
            {"name": "mine", "stderr_to_stdout": False, "nodes": 2, "gpus_per_node": 4, "tasks_per_node": 4},
            8,
        ),
        (["tasks_per_node=3"], {"name": "isopix", "stderr_to_stdout": True, "tasks_per_node": 3}, 3),
    ],
)
def test_a_job_has_the_given_parameters_and_a_process_for_each_gpu(
    given: list[str],
    expected: dict[str, Any],
    ranks: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("submitit")
    seen: list[Any] = []
    paths = SimpleNamespace(stdout="run.slurm/7_0_log.out")

    def submit(command: Any) -> Any:
        seen.append(command)
        return SimpleNamespace(job_id="7", paths=paths)

    def executor(folder: Path, parameters: dict[str, Any], *, cluster: str) -> Any:
        seen.extend([folder, parameters, cluster])
        return SimpleNamespace(submit=submit)

    monkeypatch.setattr(launch, "job_executor", executor)
    monkeypatch.setattr("sys.argv", ["isopix", "pretrain", "a b"])
    monkeypatch.chdir(tmp_path)
    for cluster, cancel in (("slurm", "scancel 7"), ("local", "kill -INT 7")):
        launch.submit([*given, f"cluster={cluster}"], Path("run"), seen.append, json=False)
        folder, parameters, named, checked, command = seen
        assert (folder, named, checked) == (tmp_path / "run.slurm", cluster, ranks)
        assert parameters == expected
        assert vars(command) == vars(launch.CommandJob(("pretrain", "a b")))
        assert capsys.readouterr().out.splitlines() == [
            "submitted job 7: isopix pretrain 'a b'",
            "watch with: tail -F run.slurm/7_0_log.out",
            f"cancel with: {cancel}",
        ]
        seen.clear()
