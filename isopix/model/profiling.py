"""Profiling of what has no formula: the FLOPs of a module, and the bytes that a forward pass saves."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, UntypedStorage, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode


def count_flops(build: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Return the FLOPs of matrices and convolutions of one forward pass; a multiply-add counts as two."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        build()(torch.zeros(shape, dtype=dtype))
    return int(counter.get_total_flops())


def activation_bytes(forward: Callable[[], Tensor], *, exclude: Iterable[Tensor]) -> int:
    """Return the bytes that a forward pass saves for backward, shared ones once, without `exclude`."""
    storages: dict[int, UntypedStorage] = {}  # holding them keeps their ids unique

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[id(storage)] = storage
        return tensor

    with saved_tensors_hooks(save, lambda tensor: tensor):
        forward()
    excluded = {id(tensor.untyped_storage()) for tensor in exclude}
    return sum(storage.nbytes() for key, storage in storages.items() if key not in excluded)
