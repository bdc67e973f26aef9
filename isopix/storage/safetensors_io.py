"""Tensors by name in safetensors files, written without copies."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

SHARDING_KEY, OFFSETS_KEY = "DCP_SHARDING_INFO", "saved_offsets"  # of torch.distributed.checkpoint


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors, with the permissions of any new file; they are on the disk when this returns.

    CPU tensors are not copied. Raises OSError.
    """
    seen: set[int] = set()
    unshared = {name: _unshared(tensor, seen) for name, tensor in tensors.items()}
    new = not path.exists()
    path.touch()
    permissions = path.stat().st_mode  # safetensors gives them to the owner alone
    try:
        safetensors.torch.save_file(unshared, path, metadata)
    except SafetensorError as error:
        if new:
            path.unlink(missing_ok=True)
        code = re.search(r"os error (\d+)", str(error))
        raise OSError(*((int(code[1]), os.strerror(int(code[1]))) if code else (str(error),))) from None
    path.chmod(permissions)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors, on the CPU and unshared. Raises ValueError that begins with the file's name."""
    try:
        tensors = safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is not a safetensors file: {error}") from None
    # Copies, because `load_file` returns views of the memory-mapped file.
    return {name: tensor.clone() for name, tensor in tensors.items()}


def read_shards(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the tensors of one file, or of shards as `torch.distributed.checkpoint` writes them, whose
    metadata have the offsets of the rows in each.

    Raises ValueError that begins with a file's name, or names a tensor of which rows are missing.
    """
    parts: dict[str, list[tuple[int, Tensor]]] = {}
    for path in paths:
        tensors, offsets = read_tensors(path), _offsets(path)
        for name, tensor in tensors.items():
            first, *_ = offsets.get(name) or [0]
            parts.setdefault(name, []).append((first, tensor))
    return {name: _joined(name, rows) for name, rows in parts.items()}


def _joined(name: str, rows: list[tuple[int, Tensor]]) -> Tensor:
    """Return the parts of a tensor, of which each begins where the one before ends, as one."""
    rows.sort(key=lambda each: each[0])
    end = 0
    for start, part in rows:
        if start != end:
            raise ValueError(f"rows of tensor '{name}' are missing from the shards")
        end += len(part) if part.ndim else 1
    return rows[0][1] if len(rows) == 1 else torch.cat([part for _, part in rows])


def _offsets(path: Path) -> dict[str, list[int]]:
    """Return the index of the first element of each tensor in the whole one; empty for a whole file."""
    with safe_open(path, "pt") as file:
        stored = json.loads((file.metadata() or {}).get(SHARDING_KEY, "{}"))
    return {name: value[OFFSETS_KEY] for name, value in stored.items()}


def _unshared(tensor: Tensor, seen: set[int]) -> Tensor:
    """Return the tensor, or a copy if it shares memory with another one, which the format does not allow."""
    tensor = tensor.detach().cpu().contiguous()
    storage = tensor.untyped_storage()
    if storage.data_ptr() in seen or storage.nbytes() != tensor.nbytes:
        tensor = tensor.clone()
    seen.add(tensor.untyped_storage().data_ptr())
    return tensor
