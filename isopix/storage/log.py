"""Run logs: one JSON object per line, appended, so that a kill loses at most the line being written."""

import json
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from isopix.core.files import open_file, read_regular
from isopix.storage.atomic import fsync_folder, report_disk_full
from isopix.storage.result import Measurement

MAX_LINE, MAX_BYTES = 2**24, 2**31  # a longer line is no record, and a larger file no log
Whole = Annotated[int, Field(ge=0, lt=2**63)]


class RunLog:
    """`log.jsonl`, opened to append after its last complete line."""

    def __init__(self, path: Path):
        self.path = path
        with report_disk_full(f"log {path}", path.parent):
            self._file = open_file(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
            fsync_folder(path.parent)
            self._file.truncate(read_regular(path, MAX_BYTES, os.O_NOFOLLOW).rfind(b"\n") + 1)

    def write(self, record: dict[str, Any]) -> None:
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
        """Delete the lines of later steps; a test of earlier weights has the `last_step` of the run."""
        later = (
            start
            for start, record in _lines(self.path)
            if record and max(record["step"], record.get("last_step", 0)) > step
        )
        self._file.truncate(next(later, self.path.stat().st_size))

    def close(self) -> None:
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return all valid records; `read_valid_records` also returns the numbers of other lines."""
    return read_valid_records(path)[0]


def read_valid_records(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the valid records, and the numbers of the other lines."""
    found = [record for _, record in _lines(path)]
    return [each for each in found if each], [number for number, each in enumerate(found, 1) if not each]


def iterate_log(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the valid records of a kind, one at a time; other lines are not parsed."""
    return (each for _, each in _lines(path, kind.encode()) if each and each["kind"] == kind)


def _lines(path: Path, containing: bytes = b"") -> Iterator[tuple[int, dict[str, Any] | None]]:
    start = 0
    with BufferedReader(open_file(path, os.O_NOFOLLOW, MAX_BYTES)) as file:
        while line := file.readline(MAX_LINE):
            if containing in line and line.endswith(b"\n"):
                yield start, _record(line)
            start += len(line)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(line)
        known = _Line.model_validate_json(line)
    except (ValueError, RecursionError):
        return None
    required = {*REQUIRED.get(known.kind, ()), *REQUIRED.get(known.split or "", ())}
    return record if required <= record.keys() else None


class _Line(BaseModel):
    """The types of a record's values; those of other names are numbers."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, float]
    kind: str
    step: Whole
    last_step: Whole = 0
    split: str | None = None
    held_out: str = ""
    evaluator: str = ""
    text: str = ""
    images: Annotated[int, Field(gt=0, lt=2**63)] = 1
    accuracy: Annotated[float, Field(ge=0, le=1)] = 0
    interval: tuple[float, float] = (0, 1)
    modes: list[Whole] = Field(default_factory=list)
    nats: dict[str, float] = Field(default_factory=dict)
    measurement: Measurement | None = None


REQUIRED = {  # names by the kind or the split of a record
    "train": ("images", "seconds"),
    "evaluation": ("split",),
    "test": ("images", "measurement"),
    "baselines": ("held_out", "nats", "modes"),
    "measurement": ("evaluator", "text", "measurement"),
    "note": ("text",),
}
