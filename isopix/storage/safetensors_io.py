"""Tensors by name in safetensors files, written without copies and read within limits."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

MAX_HEADER = 4 << 20  # bytes; the largest Image GPT needs a tenth of it


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
    check_header(path)
    try:
        tensors = safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is not a safetensors file: {error}") from None
    # Copies, because `load_file` returns views of the memory-mapped file.
    return {name: tensor.clone() for name, tensor in tensors.items()}


def check_header(path: Path) -> None:
    """Raise ValueError if the header claims to be larger than MAX_HEADER."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > MAX_HEADER:
        raise ValueError(f"{path.name} has a header of {size} bytes; at most {MAX_HEADER} are read")


def _unshared(tensor: Tensor, seen: set[int]) -> Tensor:
    """Return the tensor, or a copy if it shares memory with another one, which the format does not allow."""
    tensor = tensor.detach().cpu().contiguous()
    storage = tensor.untyped_storage()
    if storage.data_ptr() in seen or storage.nbytes() != tensor.nbytes:
        tensor = tensor.clone()
    seen.add(tensor.untyped_storage().data_ptr())
    return tensor
