"""Counting: the FLOPs of a module that has no formula, run once without memory."""

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def counted(build: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Multiply-adds counted as two, forward, of matrices and convolutions; for one input of this shape."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        build()(torch.zeros(shape, dtype=dtype))
    return int(counter.get_total_flops())
