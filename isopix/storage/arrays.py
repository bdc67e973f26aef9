"""Arrays and tensors in files: NumPy's without pickle, and safetensors, written without copies."""

import io
import json
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors.torch
import torch
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from isopix.core.files import MAX_BYTES, open_file
from isopix.core.text import naming

Arrays = dict[str, NDArray[Any]]
SHARDING_KEY, OFFSETS_KEY = "DCP_SHARDING_INFO", "saved_offsets"  # of torch.distributed.checkpoint


def read_arrays(path: Path, limit: int = MAX_BYTES) -> Arrays:
    """Return arrays by name, a `.npy` file's as "". Raises ValueError, also for more than `limit` bytes."""
    with naming(str(path)), warnings.catch_warnings(), open_file(path, limit=limit) as file:
        warnings.simplefilter("error")  # NumPy warns about headers that it reads in part
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        if (size := sum(each.file_size for each in loaded.zip.infolist())) > limit:
            raise ValueError(f"its arrays have {size:,} bytes, above the limit of {limit:,}")
        return {name: array for name, array in loaded.items() if isinstance(array, np.ndarray)}


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


def write_npy(path: Path, parts: Iterable[NDArray[Any]]) -> None:
    """Write the rows of all parts as one array; not to a memory map, where a full disk kills the process."""
    with path.open("wb") as file:
        rows = 0
        for part in parts:
            if not file.tell():
                _write_header(file, rows, part)
            file.write(np.ascontiguousarray(part).data)
            rows += len(part)
        file.seek(0)
        _write_header(file, rows, part)


def _write_header(file: BinaryIO, rows: int, part: NDArray[Any]) -> None:
    """Write a header, which NumPy pads, so that it has the same length for any number of rows."""
    header = {"descr": part.dtype.str, "fortran_order": False, "shape": (rows, *part.shape[1:])}
    npy_format.write_array_header_1_0(file, header)


def open_memmap(path: Path) -> Tensor:
    """Memory-map a .npy file copy-on-write: rows are read on demand, and changes never reach the file."""
    return torch.from_numpy(np.load(path, mmap_mode="c"))


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors, with the permissions of any new file; they are on the disk when this returns."""
    seen: set[int] = set()
    unshared = {name: _unshared(tensor, seen) for name, tensor in tensors.items()}
    path.touch()
    permissions = path.stat().st_mode  # safetensors gives them to the owner alone
    try:
        safetensors.torch.save_file(unshared, path, metadata)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        raise OSError(*((int(code[1]), os.strerror(int(code[1]))) if code else (str(error),))) from None
    path.chmod(permissions)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors, on the CPU and unshared. Raises ValueError that begins with the file's name."""
    with naming(path.name):
        # Copies, because `load_file` returns views of the memory-mapped file.
        return {name: tensor.clone() for name, tensor in safetensors.torch.load_file(path).items()}


def read_shards(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the tensors of one file, or of shards as `torch.distributed.checkpoint` writes them."""
    parts: dict[str, dict[int, Tensor]] = {}
    for path in paths:
        tensors = read_tensors(path)
        with safe_open(path, "pt") as file:
            offsets = json.loads((file.metadata() or {}).get(SHARDING_KEY, "{}"))
        for name, tensor in tensors.items():
            first, *_ = offsets.get(name, {}).get(OFFSETS_KEY) or [0]
            parts.setdefault(name, {})[first] = tensor
    return {name: _joined(name, rows) for name, rows in parts.items()}


def _joined(name: str, rows: Mapping[int, Tensor]) -> Tensor:
    if len(rows) == 1 and 0 in rows:
        return rows[0]
    ordered = [rows[first] for first in sorted(rows)]
    if sorted(rows) != list(accumulate(map(len, ordered), initial=0))[:-1]:
        raise ValueError(f"rows of tensor '{name}' are missing from the shards")
    return torch.cat(ordered)


def _unshared(tensor: Tensor, seen: set[int]) -> Tensor:
    """Return the tensor, or a copy if it shares memory with another one, which the format does not allow."""
    tensor = tensor.detach().cpu().contiguous()
    storage = tensor.untyped_storage()
    if storage.data_ptr() in seen or storage.nbytes() != tensor.nbytes:
        tensor = tensor.clone()
    seen.add(tensor.untyped_storage().data_ptr())
    return tensor
