"""Jobs in parallel: one that dies does not affect the others, and all can be asked to stop."""

import os
import signal
import time
from pathlib import Path

import pytest

from isopix.studies.executor import ExecutorObserver, ProcessExecutor, Slot, run_all
from isopix.studies.slurm import SlurmExecutor

pytestmark = pytest.mark.integration

SLOTS = [Slot("cpu", 1), Slot("cpu", 1)]


def touch(path: Path, device: str, threads: int | None) -> None:
    """Write the device and the threads to a file."""
    path.write_text(f"{device} {threads}")


def touch_or_die(path: Path, device: str, threads: int | None) -> None:
    if path.name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if path.name == "exits":
        os._exit(3)
    touch(path, device, threads)


def wait(path: Path, device: str, threads: int | None) -> None:
    """Run until asked to stop."""
    touch(path, device, threads)
    time.sleep(60)


def test_a_process_that_is_killed_is_reported_and_the_others_finish(tmp_path: Path) -> None:
    ends: dict[str, str] = {}
    paths = [tmp_path / name for name in ("a", "dies", "b", "exits", "c")]
    observer = ExecutorObserver[Path](lambda path, reason: ends.update({path.name: reason}), lambda: False)
    run_all(paths, ProcessExecutor(touch_or_die, SLOTS), observer)
    assert {name: ends[name] for name in "abc"} == dict.fromkeys("abc", "")
    assert ends["dies"] == "killed by SIGKILL, possibly out of memory"
    assert ends["exits"] == "ended with exit code 3"
    assert (tmp_path / "c").read_text() == "cpu 1"


def test_after_a_stop_nothing_is_started_and_no_end_is_reported(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    began = time.monotonic()
    both = lambda: paths[0].exists() and paths[1].exists()  # noqa: E731
    observer = ExecutorObserver[Path](lambda path, reason: pytest.fail(reason), both)
    run_all(paths, ProcessExecutor(wait, SLOTS), observer)
    assert time.monotonic() - began < 50
    assert not paths[2].exists()


def test_without_submitit_the_error_names_the_extra(tmp_path: Path) -> None:
    try:
        import submitit  # noqa: F401, PLC0415
    except ImportError:
        with pytest.raises(ValueError, match=r"pip install 'isopix\[slurm\]'"):
            SlurmExecutor(touch, tmp_path, {}, size=1)


@pytest.mark.filterwarnings("default")
def test_submitit_jobs_end_as_processes_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use submitit's local executor."""
    pytest.importorskip("submitit")
    folders = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))  # where a job finds this file
    ends: dict[str, str] = {}
    observer = ExecutorObserver[Path](lambda path, reason: ends.update({path.name: reason}), lambda: False)
    executor = SlurmExecutor(touch_or_die, tmp_path / "jobs", {"timeout_min": 1}, size=2, cluster="local")
    run_all([tmp_path / name for name in ("a", "dies", "b")], executor, observer)
    assert (ends["a"], ends["b"], (tmp_path / "b").read_text()) == ("", "", "auto None")
    assert ends["dies"].startswith("job ")


def test_unknown_submitit_parameters_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    with pytest.raises(
        ValueError, match="submitit does not accept these parameters: Unknown argument 'color'"
    ):
        SlurmExecutor(touch, tmp_path, {"color": "red"}, size=1, cluster="local")
    with pytest.raises(ValueError, match="submitit does not accept these parameters"):
        SlurmExecutor(touch, tmp_path, {"mem_gb": "many"}, size=1, cluster="local")
