"""Counting what has no formula: the FLOPs of a module, and the bytes that a forward pass keeps."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, UntypedStorage, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode


def counted(build: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Multiply-adds counted as two, forward, of matrices and convolutions; for one input of this shape."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        build()(torch.zeros(shape, dtype=dtype))
    return int(counter.get_total_flops())


def kept(forward: Callable[[], Tensor], *, apart_from: Iterable[Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward one, but for these tensors'; tensors that share their
    memory count once.
    """
    storages: dict[int, UntypedStorage] = {}  # held, so that no two of them have one id after the other

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[id(storage)] = storage
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    own = {id(tensor.untyped_storage()) for tensor in apart_from}
    return sum(storage.nbytes() for place, storage in storages.items() if place not in own)
