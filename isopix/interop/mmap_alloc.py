"""Allocate tensors in memory pages of their own, which return to the system as soon as they are freed."""

import math
import mmap

import torch
from torch import Tensor

MMAP_THRESHOLD = 2**16  # bytes from which a tensor gets its own pages


def mmap_alloc(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an uninitialized CPU tensor, for tensors that are held while a model is converted.

    The C library keeps freed memory between tensors that stay, in pieces too small for others: with its
    allocator, an import peaked at up to 1.7 times the size of the model.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < MMAP_THRESHOLD:
        return torch.empty(shape, dtype=dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=dtype).view(shape)
