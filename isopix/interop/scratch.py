"""Scratch: tensors whose memory goes back to the system as soon as they do."""

import math
import mmap

import torch
from torch import Tensor

OWN_PAGES = 2**16  # bytes from which a tensor gets pages of its own


def scratch(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor on the CPU, for what a row of a table needs while it is translated.

    The C library keeps what is freed between tensors that stay, in pieces that fit no other: a model took 1.7
    times its memory when its passing tensors and its staying ones came from the same place.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < OWN_PAGES:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(mmap.mmap(-1, size), dtype=dtype).view(shape)
