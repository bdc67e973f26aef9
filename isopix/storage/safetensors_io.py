"""Tensor files: tensors by name in safetensors, written from where they lie and read with bounds."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

MAX_HEADER = 4 << 20  # bytes; that of the largest Image GPT has a tenth


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """A file of these tensors, on the disk when this returns; CPU tensors are not copied. Raises OSError."""
    seen: set[int] = set()
    alone = {name: _alone(tensor, seen) for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(alone, path, metadata)
    except SafetensorError as error:
        code = re.search(r"os error (\d+)", str(error))
        raise OSError(*((int(code[1]), os.strerror(int(code[1]))) if code else (str(error),))) from None
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor, on the CPU, in memory of its own. Raises ValueError that begins with the file's name."""
    check_header(path)
    try:
        tensors = safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is no safetensors file: {error}") from None
    # Copies: what `load_file` returns is the file itself, mapped.
    return {name: tensor.clone() for name, tensor in tensors.items()}


def check_header(path: Path) -> None:
    """Raises ValueError if the header claims to be larger than any that we would read."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > MAX_HEADER:
        raise ValueError(f"{path.name} has a header of {size} bytes; at most {MAX_HEADER} are read")


def _alone(tensor: Tensor, seen: set[int]) -> Tensor:
    """The tensor itself, or a copy if it is one of several views of one memory, which the format refuses."""
    tensor = tensor.detach().cpu().contiguous()
    storage = tensor.untyped_storage()
    if storage.data_ptr() in seen or storage.nbytes() != tensor.nbytes:
        tensor = tensor.clone()
    seen.add(tensor.untyped_storage().data_ptr())
    return tensor
