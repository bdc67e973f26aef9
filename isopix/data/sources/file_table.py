"""FileTable: the names of many files of a folder, in one piece of memory."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class FileTable:
    """Names of files below a folder; each takes its length and 8 bytes, a path object hundreds."""

    def __init__(self, root: Path, names: Iterable[str] = ()):
        """`names` are relative to the folder, with slashes."""
        self.root = root
        self._folder = str(root / "a")[:-1]
        self._text, self._ends = bytearray(), array("q")
        self.extend(names)

    def extend(self, names: Iterable[str]) -> None:
        """Add names at the end."""
        for name in names:
            self._text += name.encode("utf-8", "surrogateescape")
            self._ends.append(len(self._text))

    def __len__(self) -> int:
        return len(self._ends)

    def name(self, i: int) -> bytes:
        """Return the name of file i as UTF-8; bytes of names that are no UTF-8 are kept."""
        return bytes(self._text[self._ends[i - 1] if i else 0 : self._ends[i]])

    def location(self, i: int) -> str:
        """Return the path of file i."""
        return self._folder + self.name(i).decode("utf-8", "surrogateescape")

    def path(self, i: int) -> Path:
        """Return the path of file i."""
        return Path(self.location(i))

    def names(self) -> Iterator[bytes]:
        """Yield all names."""
        return map(self.name, range(len(self)))

    def packed(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the names as one string, and where each ends in it."""
        return np.frombuffer(self._text, np.uint8), np.frombuffer(self._ends, np.int64)
