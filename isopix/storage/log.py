"""Run logs: one JSON object per line, appended, so that a kill loses at most the line being written."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from isopix.storage.atomic import fsync_folder, report_disk_full
from isopix.storage.record_types import StepNumber, type_error
from isopix.storage.regular_file import NO_FOLLOW, NO_WAIT, open_file, read_regular

LARGEST = 1.7e308  # magnitude of a number; JSON may hold larger integers
METRICS = ("train", "evaluation")  # kinds of records whose further values are numbers
REQUIRED = {"evaluation": ("split",), "note": ("text",), "baselines": ("held_out", "nats")}  # by kind
TYPES: dict[str, Any] = {  # of values in records of any kind
    "kind": str,
    "step": StepNumber,
    "last_step": StepNumber,
    "split": str,
    "text": str,
    "evaluator": str,
    "held_out": str,
    "nats": dict[str, float],
    "modes": list[int],
    "interval": list[float],
    "measurement": dict[str, object],
}


class RunLog:
    """`log.jsonl`, opened to append after its last complete line."""

    def __init__(self, path: Path):
        """Raises ValueError for a symbolic link and for what is no regular file."""
        self.path = path
        self._file = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW | NO_WAIT)
        fsync_folder(path.parent)
        self._truncate(_read(path).rfind(b"\n") + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a line without buffering; raises ValueError on nan, RuntimeError on a full disk."""
        assert {"kind", "step"} <= record.keys()
        line = memoryview((json.dumps(record, allow_nan=False) + "\n").encode())
        with report_disk_full(f"log {self.path}", self.path.parent):
            while line:
                line = line[self._file.write(line) :]

    def sync(self) -> None:
        """Flush all lines to the disk; call it before saving a checkpoint: the log must not lag behind."""
        with report_disk_full(f"log {self.path}", self.path.parent):
            os.fsync(self._file.fileno())

    def truncate_after(self, step: int) -> None:
        """Delete the lines of later steps, which a resumed run writes again; a test of earlier weights at the
        end of a run has the `last_step` of the run.
        """
        later = (
            start
            for start, record in _lines(self.path)
            if max(record["step"], record.get("last_step", 0)) > step
        )
        self._truncate(next(later, self.path.stat().st_size))

    def close(self) -> None:
        self._file.close()

    def _truncate(self, size: int) -> None:
        self._file.truncate(size)
        os.fsync(self._file.fileno())


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return all valid records; `read_valid_records` also returns the numbers of other lines.

    Raises ValueError for what is no regular file, OSError if the file cannot be read.
    """
    return read_valid_records(path)[0]


def read_valid_records(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the valid records, and the numbers of the other lines."""
    found = list(enumerate(map(_record, _read(path).split(b"\n")[:-1]), 1))
    return [record for _, record in found if record], [number for number, record in found if not record]


def _read(path: Path) -> bytes:
    return read_regular(path, follow_links=False)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the offset of each valid record, and the record."""
    start = 0
    for line in _read(path).split(b"\n")[:-1]:
        record = _record(line)
        if record is not None:
            yield start, record
        start += len(line) + 1


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line; None for values of wrong types, and numbers that are not finite."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not {"kind", "step"} <= record.keys():
        return None
    needed = REQUIRED.get(record["kind"], ()) if isinstance(record["kind"], str) else ()
    valid = all(name in record for name in needed) and all(_is_valid(*each) for each in record.items())
    return record if valid and (record["kind"] not in METRICS or _has_numbers(record)) else None


def _is_valid(name: str, value: object) -> bool:
    """Whether a value has the type of its name; of other names, whether its numbers are finite."""
    if name in TYPES:
        return not type_error(value, TYPES[name])
    if isinstance(value, Mapping):
        return all(_is_valid("", each) for each in value.values())
    if isinstance(value, list):
        return all(_is_valid("", each) for each in value)
    return not isinstance(value, int | float) or abs(value) <= LARGEST  # False for nan, too


def _has_numbers(record: Mapping[str, Any]) -> bool:
    """Whether all values of a record of metrics that are not known by name are numbers."""
    own = (value for name, value in record.items() if name not in TYPES)
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in own)
