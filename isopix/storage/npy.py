"""Arrays in other people's `.npy` and `.npz` files: read with bounds, and nothing in them is executed."""

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

MAX_UNPACKED = 64 * 2**30  # bytes of all arrays of an .npz file
MAX_RATIO = 200  # of them to the file's own: pictures of a few grey levels stay well below it
HARMLESS = 2**30  # bytes that any ratio may unpack to


def read_arrays(path: Path) -> Arrays:
    """The arrays of a file by name; that of a `.npy` file has the name "".

    Nothing is unpacked if all of it would be above 64 GiB, or above both 1 GiB and 200 times the file. Raises
    ValueError then, and for any other content; its message is the reason alone, in one line.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns of headers that it half understands
            return _read(path)
    # Damaged files raise zlib.error, BadZipFile, struct.error, TokenError, NotImplementedError and more.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:  # NumPy says so of all that it does not know, and how to load it unsafely
            reason = "it is no .npy or .npz file of plain numbers"
        raise ValueError(reason) from error


def is_numeric(array: NDArray[Any]) -> bool:
    """Whether its values are whole numbers or decimals."""
    return array.dtype.kind in "iuf"


def _read(path: Path) -> Arrays:
    if zipfile.is_zipfile(path):
        unpacked, allowed = _unpacked_bytes(path), _allowed_bytes(path)
        if unpacked > allowed:
            raise ValueError(f"it unpacks to {unpacked:,} bytes, above the limit of {allowed:,}")
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            members = {name: loaded[name] for name in loaded.files}
    return {name: array for name, array in members.items() if isinstance(array, np.ndarray)}


def _unpacked_bytes(path: Path) -> int:
    """As the archive's directory says; what a member has beyond that is never read."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def _allowed_bytes(path: Path) -> int:
    return min(MAX_UNPACKED, max(HARMLESS, MAX_RATIO * path.stat().st_size))
