"""Sealed folders: files written beside and renamed, with a hash of every byte that is checked before they are
used; and `.npy` files that grow as they are written.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from isopix.data.sources.base import digest_files, digest_of

MANIFEST_FILE = "record.json"


def write_artifact(target: Path, write: Callable[[Path], Mapping[str, Any]]) -> None:
    """Make the folder `target` of what `write` puts into an empty one, and seal it with the facts that it
    returns. Another process may be faster, if its content is the same. Raises OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    with TemporaryDirectory(prefix=".writing-", dir=target.parent, ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / target.name
        folder.mkdir()
        facts = write(folder)
        files = {path.name: path for path in sorted(folder.iterdir())}
        text = json.dumps({**facts, "files": digest_files(files)}, sort_keys=True)
        (folder / MANIFEST_FILE).write_text(json.dumps({"digest": digest_of(text.encode()), "record": text}))
        try:
            folder.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What a folder was sealed with; None if it is not there, or not what was written."""
    try:
        sealed = json.loads((folder / MANIFEST_FILE).read_text())
        text = sealed["record"]
        record: dict[str, Any] = json.loads(text)
        files = {name: folder / name for name in record["files"]}
        intact = digest_of(text.encode()) == sealed["digest"] and digest_files(files) == record["files"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if intact else None


class NpyWriter:
    """A .npy file that grows by plain writes: a full disk is an OSError (it kills a memory map)."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: DTypeLike = np.uint8):
        """`shape` is that of one row."""
        self.path, self.shape, self.dtype, self.bytes = path, shape, np.dtype(dtype), 0

    def __enter__(self) -> "NpyWriter":
        self.file: BinaryIO = self.path.open("wb")
        self._header()
        return self

    def append(self, values: NDArray[Any]) -> None:
        """One row or several."""
        self.bytes += self.file.write(np.ascontiguousarray(values, self.dtype).data)

    def __exit__(self, *_: object) -> None:
        with self.file:
            self.file.seek(0)
            self._header()  # NumPy pads the header, so that the final one is as long as the first

    def _header(self) -> None:
        rows = self.bytes // (self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64)))
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (rows, *self.shape)}
        npy.write_array_header_1_0(self.file, header)


def open_memmap(path: Path) -> Tensor:
    """Memory-mapped and private: rows are read when needed, and writing to them never reaches the file."""
    with path.open("rb") as file:
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
    if 0 in shape:  # nothing to map
        return torch.from_numpy(np.zeros(shape, dtype))
    return torch.from_numpy(np.load(path, mmap_mode="c"))
