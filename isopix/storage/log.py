"""Run logs: one JSON object per line, appended, so that a kill loses at most the line being written."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from isopix.storage.atomic import fsync_folder, report_disk_full


class LogWriter(Protocol):
    """A destination of records, each of which has a `kind` and a `step`."""

    def write(self, record: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class RunLog:
    """`log.jsonl`, opened to append after its last complete line."""

    def __init__(self, path: Path):
        self.path = path
        self._file = path.open("ab", buffering=0)
        fsync_folder(path.parent)
        self._truncate(path.read_bytes().rfind(b"\n") + 1)

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


class TensorBoardLog:
    """TensorBoard scalars `<kind>/<name>`, or `<kind>/<split>/<name>`, of the same records."""

    def __init__(self, folder: Path, *, after: int = -1):
        """Hide steps above `after` of an earlier process. Raises ValueError without the package."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra
        except ImportError:
            raise ValueError("TensorBoard is not installed; pip install 'isopix[tensorboard]'") from None
        self._writer = SummaryWriter(str(folder), purge_step=after + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a scalar for each number."""
        prefix = "/".join(record[key] for key in ("kind", "split") if key in record)
        for name, value in record.items():
            if name != "step" and isinstance(value, int | float):
                self._writer.add_scalar(f"{prefix}/{name}", value, record["step"])

    def close(self) -> None:
        self._writer.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return all complete records; raises ValueError, with its number, for a line that is none."""
    return [record for _, record in _lines(path)]


def read_valid_records(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the records that can be read, and the numbers of the other lines."""
    found = list(enumerate(map(_record, path.read_bytes().split(b"\n")[:-1]), 1))
    return [record for _, record in found if record], [number for number, record in found if not record]


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the offset of each complete line, and its record."""
    start = 0
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        record = _record(line)
        if record is None:
            raise ValueError(f"line {number} of log {path} is not a record with a kind and a step")
        yield start, record
        start += len(line) + 1


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"kind", "step"} <= record.keys() else None
