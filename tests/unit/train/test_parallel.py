"""What needs no second process: who computes which images, and what a rank says of itself."""

from pathlib import Path

import pytest

from isopix.runs.pretrain import shared_by_ranks
from isopix.storage.run_folder import start_run
from isopix.train.parallel import OneDevice


def test_each_rank_has_dropout_of_its_own_and_the_first_that_of_one_process() -> None:
    one = OneDevice.__new__(OneDevice)  # the task does not matter
    names = set()
    for one.rank in range(3):
        names.add(one.name("dropout"))
    assert len(names) == 3
    assert "dropout" in names


def test_a_view_of_a_run_has_its_records_and_saves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with shared_by_ranks(start_run(tmp_path / "run"), tmp_path / "run") as view:
        assert view.saved.path == tmp_path / "run"
        assert view.path != tmp_path / "run"
        assert view.checkpoints.is_dir()
        (view.path / "log.jsonl").write_text("{}")
    assert not view.path.exists()
    assert not list(tmp_path.iterdir())
