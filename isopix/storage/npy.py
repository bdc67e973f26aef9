"""NumPy files: untrusted `.npy` and `.npz` files read within limits, large ones written and read in parts."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]

MAX_UNPACKED = 64 * 2**30  # bytes of all arrays of an .npz file
MAX_RATIO = 200  # of unpacked bytes to bytes of the file: images of a few gray levels stay well below it
ALWAYS_ALLOWED = 2**30  # unpacked bytes, at any ratio


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a file by name; the one of a `.npy` file has the name "".

    Nothing in the file is executed. Nothing is unpacked if the total would be above 64 GiB, or above both 1
    GiB and 200 times the file size. Raises ValueError then, and for any other content, with a one-line
    message.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns about headers that it reads in part
            return _read(path)
    # Damaged files raise zlib.error, BadZipFile, struct.error, TokenError, NotImplementedError and more.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:  # NumPy's message for unknown content explains how to load it unsafely
            reason = "it is not a .npy or .npz file of numbers"
        raise ValueError(reason) from error


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return the content of a `.npy` file."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def is_numeric(array: NDArray[Any]) -> bool:
    """Return whether the values are integers or floats."""
    return array.dtype.kind in "iuf"


class NpyWriter:
    """A .npy file that grows by plain writes: a full disk raises OSError (and kills a memory map)."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: DTypeLike = np.uint8):
        """`shape` is the shape of one row."""
        self.path, self.shape, self.dtype, self.nbytes = path, shape, np.dtype(dtype), 0

    def __enter__(self) -> "NpyWriter":
        self.file: BinaryIO = self.path.open("wb")
        self._write_header()
        return self

    def append(self, values: NDArray[Any]) -> None:
        """Write one row or several."""
        self.nbytes += self.file.write(np.ascontiguousarray(values, self.dtype).data)

    def __exit__(self, *_: object) -> None:
        with self.file:
            self.file.seek(0)
            self._write_header()  # NumPy pads the header, so that the final one has the same length

    def _write_header(self) -> None:
        rows = self.nbytes // (self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64)))
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (rows, *self.shape)}
        npy_format.write_array_header_1_0(self.file, header)


def open_memmap(path: Path) -> Tensor:
    """Memory-map a .npy file copy-on-write: rows are read on demand, and changes never reach the file."""
    return torch.from_numpy(np.load(path, mmap_mode="c"))


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map a .npy file of unknown content for reading. Raises ValueError for anything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # damaged files raise many types
        reason = "it is not a .npy file of numbers"
        raise ValueError(reason) from error


def _read(path: Path) -> Arrays:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:  # bytes of a member beyond its stated size are never read
            unpacked = sum(member.file_size for member in archive.infolist())
        allowed = min(MAX_UNPACKED, max(ALWAYS_ALLOWED, MAX_RATIO * path.stat().st_size))
        if unpacked > allowed:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, above the limit of {allowed:,}")
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            members = {name: loaded[name] for name in loaded.files}
    return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}
