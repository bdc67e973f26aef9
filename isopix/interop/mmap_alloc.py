"""Scratch: tensors whose memory is theirs alone, and goes back to the system as soon as they do."""

import math
import mmap

import torch
from torch import Tensor

OWN_PAGES = 2**16  # bytes from which a tensor gets pages of its own


def scratch(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor on the CPU, for what is read and what stays of it while a model is translated.

    The C library keeps what is freed between tensors that stay, in pieces that fit no other: a model took
    up to 1.7 times its memory when its passing tensors and its staying ones came from there.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < OWN_PAGES:
        return torch.empty(shape, dtype=dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=dtype).view(shape)
