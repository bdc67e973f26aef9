"""NumPy files: `.npy` and `.npz` files read without pickle, large ones written and read in parts."""

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a file by name; the one of a `.npy` file has the name "".

    Raises ValueError for any other content, with a one-line message.
    """
    with _one_line_errors(), path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            members = {name: loaded[name] for name in loaded.files}
        return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return the content of a `.npy` file."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of an `.npz` file, which has a checksum of each array."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()


def is_numeric(array: NDArray[Any]) -> bool:
    """Return whether the values are integers or floats."""
    return array.dtype.kind in "iuf"


class NpyWriter:
    """A .npy file that grows by plain writes: a full disk raises OSError (and kills a memory map)."""

    def __init__(self, file: BinaryIO, shape: tuple[int, ...], dtype: DTypeLike = np.uint8):
        """`shape` is the shape of one row; `file` is empty, or open at the end of the rows that it has."""
        self.file, self.shape, self.dtype = file, shape, np.dtype(dtype)
        end = file.tell()
        file.seek(0)
        self._write_header(0)
        self._start = file.tell()
        file.seek(max(end, self._start))

    def __enter__(self) -> "NpyWriter":
        return self

    def append(self, values: NDArray[Any] | int | tuple[int, ...]) -> None:
        """Write one row or several."""
        self.file.write(np.ascontiguousarray(values, self.dtype).data)

    def finish(self) -> None:
        """Write the number of rows into the header."""
        end = self.file.tell()
        self.file.seek(0)
        self._write_header((end - self._start) // (self.dtype.itemsize * prod(self.shape)))
        self.file.seek(end)

    def __exit__(self, *_: object) -> None:
        with self.file:
            self.finish()

    def _write_header(self, rows: int) -> None:
        # NumPy pads the header, so that it has the same length for any number of rows.
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (rows, *self.shape)}
        npy_format.write_array_header_1_0(self.file, header)


def open_memmap(path: Path) -> Tensor:
    """Memory-map a .npy file copy-on-write: rows are read on demand, and changes never reach the file."""
    return torch.from_numpy(np.load(path, mmap_mode="c"))


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn errors and warnings about the content of a file into a ValueError with a one-line message."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns about headers that it reads in part
            yield
    except Exception as error:  # zlib.error, BadZipFile, struct.error, TokenError, NotImplementedError ...
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:  # NumPy's message for unknown content explains how to load it unsafely
            reason = "it is not a .npy or .npz file of numbers"
        raise ValueError(reason) from error
