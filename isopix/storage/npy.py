"""NumPy files: untrusted `.npy` and `.npz` files read within limits, large ones written and read in parts."""

import io
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch
from numpy.lib import format as npy_format
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

Arrays = dict[str, NDArray[Any]]

MAX_UNPACKED = 64 * 2**30  # bytes of all arrays of an .npz file
MAX_RATIO = 200  # of unpacked bytes to bytes of the file: images of a few gray levels stay well below it
ALWAYS_ALLOWED = 2**30  # unpacked bytes, at any ratio
IN_MEMORY_RATIO, IN_MEMORY_ALLOWED = 2, 64 * 2**20  # the same of arrays that are held in memory
MAX_DIRECTORY = 2**20  # bytes of the list of the files in an archive: thousands of arrays


def read_arrays(path: Path) -> Arrays:
    """Return the arrays of a file by name; the one of a `.npy` file has the name "".

    Nothing in the file is executed. Nothing is unpacked if the total would be above 64 MiB and twice the file
    size. Raises ValueError then, and for any other content, with a one-line message.
    """
    with _one_line_errors():
        return _read(path)


class ArchivedArray:
    """An array of an `.npz` file of which only the header has been read: `shape` and `dtype`."""

    def __init__(self, path: Path, member: zipfile.ZipInfo):
        """Raises ValueError for anything but an array of numbers or text that is there in full."""
        self.path, self.member = path, member
        with _one_line_errors(), self._open() as file:
            self.shape, self._fortran, self.dtype = _read_header(file)
            self.nbytes = prod(self.shape) * self.dtype.itemsize
            if file.tell() + self.nbytes != member.file_size:
                raise ValueError(
                    f"{member.filename} has {member.file_size:,} bytes, not those of {self.dtype} "
                    f"{list(self.shape)}"
                )

    def read(self) -> NDArray[Any]:
        """Return the array. Raises ValueError if it is above 64 MiB and twice the file size, or damaged."""
        with _one_line_errors():
            _check_size(self.nbytes, self.path.stat().st_size, IN_MEMORY_RATIO, IN_MEMORY_ALLOWED)
            with self._open() as file:
                return np.asarray(npy_format.read_array(file, allow_pickle=False))

    def rows(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Yield rows `start` to `stop - 1`, one in memory at a time; a compressed array is unpacked from its
        first row on. Raises ValueError if the file is damaged.
        """
        if self._fortran:  # the first rows need the last bytes
            yield from self.read()[start:stop]
            return
        size, shape = self.nbytes // self.shape[0], self.shape[1:]
        with self._open() as file:
            with _one_line_errors():
                _read_header(file)
                file.seek(start * size, io.SEEK_CUR)
            for _ in range(start, stop):
                with _one_line_errors():
                    row = np.frombuffer(file.read(size), self.dtype).reshape(shape)
                yield row

    @contextmanager
    def _open(self) -> Iterator[io.BufferedIOBase]:
        with zipfile.ZipFile(self.path) as archive:
            with _one_line_errors():
                file = archive.open(self.member)
            with file:
                yield cast(io.BufferedIOBase, file)


def open_arrays(path: Path) -> dict[str, ArchivedArray]:
    """Return the arrays of an `.npz` file by name, of which only the headers are read.

    Raises ValueError for any other content, and if the total is above 64 GiB, or above both 1 GiB and 200
    times the file size.
    """
    with _one_line_errors():
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not an .npz file")
        members = _members(path, MAX_RATIO, ALWAYS_ALLOWED)
    return {
        member.filename.removesuffix(".npy"): ArchivedArray(path, member)
        for member in members
        if member.filename.endswith(".npy")
    }


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
        row = self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))
        self._write_header((end - self._start) // row)
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
        _members(path, IN_MEMORY_RATIO, IN_MEMORY_ALLOWED)
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            members = {name: loaded[name] for name in loaded.files}
    return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn errors and warnings about the content of a file into a ValueError with a one-line message."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns about headers that it reads in part
            yield
    # Damaged files raise zlib.error, BadZipFile, struct.error, TokenError, NotImplementedError and more.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:  # NumPy's message for unknown content explains how to load it unsafely
            reason = "it is not a .npy or .npz file of numbers"
        raise ValueError(reason) from error


def _members(path: Path, ratio: int, always_allowed: int) -> list[zipfile.ZipInfo]:
    """Return the files of an archive. Raises ValueError if they are too many or unpack to too much."""
    if (size := _directory_bytes(path)) > MAX_DIRECTORY:
        raise ValueError(f"its list of files has {size:,} bytes, above the limit of {MAX_DIRECTORY:,}")
    with zipfile.ZipFile(path) as archive:  # bytes of a member beyond its stated size are never read
        members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    _check_size(unpacked, path.stat().st_size, ratio, always_allowed)
    return members


def _check_size(unpacked: int, packed: int, ratio: int, always_allowed: int) -> None:
    allowed = min(MAX_UNPACKED, max(always_allowed, ratio * packed))
    if unpacked > allowed:
        raise ValueError(f"it unpacks to {unpacked:,} bytes, above the limit of {allowed:,}")


def _directory_bytes(path: Path) -> int:
    """Return the size of the list of files of a zip archive, which `zipfile` reads at once, from the records
    at its end (APPNOTE.TXT sections 4.3.14 to 4.3.16).
    """
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, io.SEEK_END) - 2**16 - 98))  # the longest comment and the records
        end = file.read()
    sizes = [0]
    for place in {end.rfind(b"PK\5\6"), len(end) - 22}:
        sizes.append(int.from_bytes(end[place + 12 : place + 16], "little"))
        if end[place - 76 : place - 72] == b"PK\6\6":  # of 64 bits, followed by its locator of 20 bytes
            sizes.append(int.from_bytes(end[place - 36 : place - 28], "little"))
    return max(sizes)


def _read_header(file: io.BufferedIOBase) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether in Fortran order, and dtype. Raises ValueError for Python objects."""
    version = npy_format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format is {version}; allowed: 1.0, 2.0")
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject or any(side < 0 for side in shape):
        raise ValueError("it is not a .npy or .npz file of numbers")
    return shape, fortran, dtype
