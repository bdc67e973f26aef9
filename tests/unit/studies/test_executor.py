"""Tasks side by side: one that dies takes nothing with it, and all can be asked to stop."""

import os
import signal
import time
from pathlib import Path

import pytest

from isopix.studies.executor import Place, Processes, Watch, side_by_side
from isopix.studies.slurm import Slurm

PLACES = [Place("cpu", 1), Place("cpu", 1)]


def touch(task: Path, device: str, threads: int | None) -> None:
    """Leaves a file, and says in it where it was made."""
    task.write_text(f"{device} {threads}")


def touch_unless_told_to_die(task: Path, device: str, threads: int | None) -> None:
    if task.name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.name == "exits":
        os._exit(3)
    touch(task, device, threads)


def wait(task: Path, device: str, threads: int | None) -> None:
    """Until it is asked to stop."""
    touch(task, device, threads)
    time.sleep(60)


def test_a_process_that_dies_is_told_and_the_others_are_done(tmp_path: Path) -> None:
    ends: dict[str, str] = {}
    tasks = [tmp_path / name for name in ("a", "dies", "b", "exits", "c")]
    watch = Watch[Path](lambda task, fate: ends.update({task.name: fate}), lambda: False)
    side_by_side(tasks, Processes(touch_unless_told_to_die, PLACES), watch)
    assert {name: ends[name] for name in "abc"} == dict.fromkeys("abc", "")
    assert ends["dies"] == "killed by SIGKILL, as systems do where memory is out"
    assert ends["exits"] == "ended with exit code 3"
    assert (tmp_path / "c").read_text() == "cpu 1"


def test_asked_to_stop_it_begins_nothing_more_and_tells_no_ends(tmp_path: Path) -> None:
    tasks = [tmp_path / name for name in "abc"]
    began = time.monotonic()
    watch = Watch[Path](lambda task, fate: pytest.fail(fate), lambda: tasks[0].exists() and tasks[1].exists())
    side_by_side(tasks, Processes(wait, PLACES), watch)
    assert time.monotonic() - began < 50
    assert not tasks[2].exists()


def test_without_submitit_slurm_says_what_to_install(tmp_path: Path) -> None:
    try:
        import submitit  # noqa: F401, PLC0415
    except ImportError:
        with pytest.raises(ValueError, match=r"pip install 'isopix\[slurm\]'"):
            Slurm(touch, tmp_path, {}, size=1)


@pytest.mark.filterwarnings("default")
def test_jobs_of_submitit_end_as_processes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine, by submitit's own stand-in for a cluster."""
    pytest.importorskip("submitit")
    path = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))  # where a job finds this file
    ends: dict[str, str] = {}
    watch = Watch[Path](lambda task, fate: ends.update({task.name: fate}), lambda: False)
    crew = Slurm(touch_unless_told_to_die, tmp_path / "jobs", {"timeout_min": 1}, size=2, cluster="local")
    side_by_side([tmp_path / name for name in ("a", "dies", "b")], crew, watch)
    assert (ends["a"], ends["b"], (tmp_path / "b").read_text()) == ("", "", "auto None")
    assert ends["dies"].startswith("job ")


def test_parameters_that_submitit_does_not_know_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    with pytest.raises(ValueError, match="submitit does not take these parameters"):
        Slurm(touch, tmp_path, {"mem_gb": "many", "nodes": "x", "colour": "red"}, size=1, cluster="local")
