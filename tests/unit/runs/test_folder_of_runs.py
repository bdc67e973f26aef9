"""A folder of several runs: one process at a time, always the same settings, no rest of a mistake."""

from pathlib import Path

import pytest

from isopix.runs.resume import FOLDER_LOCK, SETTINGS, folder_of_runs

GIVEN = {"train": {"steps": 4, "lr": 0.1}, "data": {"workers": 2}, "pretrained": None}


def work(out: Path, *runs: str, **changes: object) -> None:
    with folder_of_runs(out, {**GIVEN, **changes}, "search"):
        for name in runs:
            (out / name).mkdir(exist_ok=True)


def names(out: Path) -> set[str]:
    return {path.name for path in out.iterdir()}


def test_the_same_call_continues_and_another_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    work(out, "one")
    work(out, "two", data={"workers": 0})  # which changes no number
    before = names(out)
    assert before == {"one", "two", FOLDER_LOCK, SETTINGS}
    for changes, difference in [
        ({"train": {"steps": 5, "lr": 0.1}}, "train.steps=4, not 5"),
        ({"train": {"steps": 4}}, "train.lr=0.1, not None"),
        ({"pretrained": {"run": "a", "step": 3}}, "pretrained.run=None, not a"),
    ]:
        with pytest.raises(ValueError, match=f"^the search in .* has {difference}; choose another --out$"):
            work(out, **changes)
    assert names(out) == before


@pytest.mark.parametrize("left", ["mine", ".hidden"])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, left: str) -> None:
    (tmp_path / left).touch()
    with pytest.raises(ValueError, match="is not empty"):
        work(tmp_path, "one")
    assert names(tmp_path) == {left}


def test_a_mistake_before_the_first_run_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), folder_of_runs(out, GIVEN, "search"):
        raise KeyboardInterrupt
    assert not out.exists()
    work(out, "one")
    with pytest.raises(KeyboardInterrupt), folder_of_runs(out, GIVEN, "search"):
        raise KeyboardInterrupt
    assert "one" in names(out)
