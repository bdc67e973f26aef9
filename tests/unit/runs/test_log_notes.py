import json
from pathlib import Path

import pytest

from isopix.runs.log_notes import log_notes
from isopix.train.config import TrainConfig

CONFIG = TrainConfig(steps=100, log_every=5, evaluate_every=10)


def write(path: Path, steps: range, validated: range) -> list[str]:
    """Write the records of a run, and return the lines."""
    lines = [json.dumps({"kind": "train", "step": step, "loss_nats": 1.0}) for step in steps]
    of_split = {"kind": "evaluation", "split": "validation", "loss_nats": 1.0}
    lines += [json.dumps({**of_split, "step": step}) for step in validated]
    path.write_text("".join(f"{line}\n" for line in lines))
    return lines


@pytest.mark.parametrize("step", [0, 4, 5, 37, 60])
def test_a_whole_log_has_none(tmp_path: Path, step: int) -> None:
    write(tmp_path / "log.jsonl", range(5, step + 1, 5), range(0, step + 1, 10))
    assert log_notes(tmp_path / "log.jsonl", CONFIG, step) == []


def test_no_log_is_told_unless_the_run_has_just_started(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert log_notes(path, CONFIG, 0) == []
    assert log_notes(path, CONFIG, 40) == ["log.jsonl was missing: records before step 40 are lost"]


def test_wrong_lines_and_missing_steps_are_told(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = write(path, range(5, 41, 5), range(0, 41, 10))
    lines[1], lines[4], lines[5] = "{", "[]", '{"kind": "train", "step": "30"}'  # of steps 10, 25 and 30
    path.write_text("".join(f"{line}\n" for line in lines))
    assert log_notes(path, CONFIG, 50) == [
        "log.jsonl: lines 2, 5 to 6 skipped, no valid record",
        "log.jsonl has no records of training at steps 10, 25 to 30, 45 to 50",
        "log.jsonl has no records of validation at step 50",
    ]


def test_many_gaps_are_not_all_listed(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", range(10, 101, 10), range(0))
    [note] = log_notes(tmp_path / "log.jsonl", CONFIG, 100)
    assert note.endswith("at steps 5, 15, 25, 35, 45 and 5 more ranges")


def test_a_run_without_validation_images_misses_none(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", range(5, 21, 5), range(0))
    assert log_notes(tmp_path / "log.jsonl", CONFIG, 20) == []
