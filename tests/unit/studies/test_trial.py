"""A cell, whatever happens to it: stopped, diverging, failing; the numbers stay the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isopix.storage.lock import sole_writer
from isopix.storage.run_folder import RunFolder
from isopix.studies import trial
from isopix.studies.study import Study, plan
from isopix.studies.trial import Task, work

SMALL = [
    "steps=12",
    "width=8",
    "data.rows=8",
    "data.cols=8",
    "batch_size=16",
    "evaluate_every=12",
    "log_every=1",
]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Task]:
    """`make(name, *settings)`: a convolution on digits, in a study of that name."""

    def task(name: str, *settings: str) -> Task:
        words = [*SMALL, "checkpoint_every=4", *settings]
        planned = plan("tiny", data="digits", pattern="conv-pix2vec-1", seeds=1, settings=words)
        with Study.create(tmp_path / name, planned) as study:
            (made,) = study.tasks()
        return made._replace(probed={"train": 200, "validation": 100, "test": 100})

    return task


def test_a_cell_is_an_ordinary_run_with_a_probe_and_one_file_that_tells_its_outcome(
    make: Callable[..., Task],
) -> None:
    task = make("whole")
    work(task, "cpu", 1)
    found, run = task.read(), RunFolder.open(task.folder)
    assert found.state == "done"
    assert found.cell is not None
    assert (found.cell.kind, found.cell.seed) == (("conv", "pix2vec", 1), 0)
    assert len(found.cell.accuracies) == len(found.found["untrained"]) == 2
    assert len(list(run.probes.glob("probe-*.json"))) == 1
    assert set(found.found["measured"]["colours"]) == {"whole", "palette", "misplaced", "exact"}


def test_stopped_and_gone_on_it_ends_with_the_same_numbers(
    make: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, task = make("whole"), make("stopped")
    work(whole, "cpu", 1)
    asked = iter([False] * 5 + [True] * 100)
    monkeypatch.setattr(trial, "_abandoned", lambda: next(asked))
    work(task, "cpu", 1)
    assert task.read().state == "not yet"
    assert RunFolder(task.folder).saved
    monkeypatch.undo()
    work(task, "cpu", 1)
    assert task.read().found == whole.read().found


def test_where_a_rate_diverges_the_next_one_is_taken_and_both_are_told(make: Callable[..., Task]) -> None:
    task = make("diverging")._replace(rates=(1e30, 0.01))
    work(task, "cpu", 1)
    found = task.read()
    assert [(rung.lr, rung.status) for rung in found.rungs] == [(1e30, "non-finite"), (0.01, "completed")]
    assert (found.state, found.run) == ("done", f"{task.folder.name}-lr-0.01")


def test_a_rate_that_died_is_not_tried_again(make: Callable[..., Task]) -> None:
    task = make("dying")._replace(rates=(1e30,))
    work(task, "cpu", 1)
    found = task.read()
    assert (found.state, found.reason) == (
        "failed",
        "the loss diverged at every rate from 1e+30 down to 1e+30",
    )
    log = task.folder / "log.jsonl"
    before = log.stat().st_mtime_ns
    work(task, "cpu", 1)
    assert task.read().reason == found.reason
    assert log.stat().st_mtime_ns == before


def test_a_failure_is_written_down_and_tried_again(
    make: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make("failing")

    def broken(*given: object) -> None:
        raise RuntimeError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(trial, "measured", broken)
    work(task, "cpu", 1)
    assert (task.read().state, task.read().reason) == ("failed", "CUDA out of memory.")
    assert "in broken" in task.read().trace
    monkeypatch.undo()
    work(task, "cpu", 1)
    assert (task.read().state, task.read().reason) == ("done", "")


def test_a_cell_that_another_process_still_saves_is_left_alone(make: Callable[..., Task]) -> None:
    task = make("taken")
    task.folder.mkdir()
    begun = task.folder / "log.jsonl"
    begun.touch()
    with sole_writer(task.outcome.parent, "cell", name=f"{task.name}.lock"):
        work(task, "cpu", 1)
    assert "is in use by process" in task.read().reason
    assert begun.exists()


@pytest.mark.parametrize(
    ("content", "told"), [("garbage", "is no JSON"), ('{"found": {"cell": {}}}', "it has no block")]
)
def test_an_outcome_that_cannot_be_read_is_told_with_what_to_do(
    make: Callable[..., Task], content: str, told: str
) -> None:
    task = make("damaged")
    task.outcome.write_text(content)
    with pytest.raises(ValueError, match=f"{task.outcome} cannot be read: .*{told}.*; without it"):
        task.read()
