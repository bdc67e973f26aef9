"""Folders whose files only grow: after a kill, writing goes on from what was saved last."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from isopix.storage.atomic import replace_file

STATE_FILE = "state.json"


class GrowingFolder:
    """A folder of files that are appended to, and a `record` of what they have.

    `save` brings both to the disk. Opened again, the record is that of the last save, and each file is cut to
    the size that it had then; a folder in which a file is shorter than that starts anew.
    """

    def __init__(self, path: Path):
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._opened: dict[str, BinaryIO] = {}
        self._sizes, self.record = self._read()

    def file(self, name: str) -> BinaryIO:
        """Return a file, open for writing at its end. Raises OSError."""
        size = self._sizes.get(name, 0)
        opened = (self.path / name).open("r+b" if size else "w+b")
        opened.truncate(size)
        opened.seek(size)
        self._opened[name] = opened
        return opened

    def save(self, record: Mapping[str, Any]) -> None:
        """Make what the files have now, and the record, survive a kill and a power failure. Raises OSError,
        or RuntimeError if the disk is full.
        """
        for name, file in self._opened.items():
            file.flush()
            os.fsync(file.fileno())
            self._sizes[name] = file.tell()
        state = json.dumps({"sizes": self._sizes, "record": record})
        replace_file(self.path / STATE_FILE, state.encode())
        self.record = dict(record)

    def close(self) -> None:
        """Close the files."""
        for file in self._opened.values():
            file.close()

    def _read(self) -> tuple[dict[str, int], dict[str, Any]]:
        try:
            state = json.loads((self.path / STATE_FILE).read_bytes())
            sizes: dict[str, int] = state["sizes"]
            whole = all((self.path / name).stat().st_size >= size for name, size in sizes.items())
            return (sizes, state["record"]) if whole else ({}, {})
        except (OSError, ValueError, KeyError, TypeError):
            return {}, {}
