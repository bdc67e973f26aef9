"""The log of a run: valid lines are read, wrong ones skipped and reported, later ones cut."""

import pytest

from isopix.storage import log
from tests.peak_memory import peak_memory


def train(step):
    return {"kind": "train", "step": step, "loss_nats": 2.5 / step, "images": step * 128, "seconds": 0.5}


@pytest.fixture
def path(tmp_path):
    """A log of steps 1 to 5."""
    path = tmp_path / "log.jsonl"
    writer = log.RunLog(path)
    for step in range(1, 6):
        writer.write(train(step))
    writer.sync()
    writer.close()
    return path


def steps(path):
    return [record["step"] for record in log.read_log(path)]


def test_a_torn_last_line_is_not_read_and_cut_before_the_next_is_written(path):
    whole = path.read_bytes()
    for lost in range(1, len(whole.splitlines(keepends=True)[-1]) + 1):
        path.write_bytes(whole[:-lost])
        assert steps(path) == [1, 2, 3, 4]
        writer = log.RunLog(path)
        writer.write(train(5))
        writer.close()
        assert path.read_bytes() == whole


WRONG = ["{", "[]", "", "[" * 100_000, '{"kind": "train"}', '{"kind": "train", "step": true}']
WRONG += ['{"kind": ["train"], "step": 3}', '{"kind": "train", "step": 3, "loss_nats": NaN}']
WRONG += ['{"kind": "train", "step": 3, "images": 1, "seconds": 1.0}' + " " * log.MAX_LINE]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_skipped_and_told(path, line):
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    assert steps(path) == [1, 2, 4, 5]
    assert log.read_valid_records(path)[1] == [3]
    writer = log.RunLog(path)
    writer.truncate_after(4)
    writer.close()
    assert path.read_text().splitlines() == [*lines[:2], line, lines[3]]


def test_records_of_a_kind_are_read_in_little_memory(path):
    lines = path.read_text()
    path.write_text('{"kind": "note", "step": 0, "text": "a"}\n' + 100_000 * lines)
    with peak_memory() as peak:
        assert [each["step"] for each in log.iterate_log(path, "note")] == [0]
    assert peak() < 2**20


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("keep\n" * 3)
    link = tmp_path / "log.jsonl"
    link.symlink_to(target)
    for use in (log.RunLog, log.read_log, log.read_valid_records):
        with pytest.raises(OSError, match="symbolic link"):
            use(link)
    assert target.read_text() == "keep\n" * 3


@pytest.mark.parametrize("step", range(7))
def test_lines_of_later_steps_are_dropped(path, step):
    writer = log.RunLog(path)
    writer.truncate_after(step)
    writer.write({"kind": "note", "step": step, "text": "resumed"})
    writer.close()
    assert steps(path) == [*range(1, min(step, 5) + 1), step]


def test_what_was_tested_at_a_later_step_is_dropped(path):
    writer = log.RunLog(path)
    writer.write({"kind": "note", "step": 2, "last_step": 6, "text": "of the best weights"})
    writer.truncate_after(5)
    writer.close()
    assert steps(path) == [1, 2, 3, 4, 5]
