"""Training with sharded weights, by PyTorch's FSDP2: each rank has a part of every weight."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from isopix.core.device import Precision
from isopix.model.blocks.base import Block
from isopix.train.parallel import DataParallel, Losses
from isopix.train.tasks import TrainingTask


class ShardedDataParallel(DataParallel):
    """FSDP2: every rank has a part of each weight, its gradient and its moments; a block's weights are
    gathered when it runs.

    With bf16 they are gathered in bf16, and gradients summed in fp32.
    """

    def __init__(self, task: TrainingTask, precision: Precision):
        super().__init__(task)
        self.shards_weights = True
        for tensor in task.module.state_dict().values():
            dist.broadcast(tensor, 0)
        dtype = torch.bfloat16 if precision == "bf16" else None
        policy = MixedPrecisionPolicy(
            param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
        module = task.module
        blocks = [each for each in module.modules() if isinstance(each, Block)]
        for block in reversed(blocks):  # those inside others first
            fully_shard(block, mp_policy=policy)
            register_fsdp_forward_method(block, "forward_at")  # of masked objectives; it gathers too
        fully_shard(module, mp_policy=policy)
        self.sharded = cast("FSDPModule", module)
        # Evaluations precede the first `forward` of the whole module, which would make it the root.
        self.sharded._get_fsdp_state()._lazy_init()

    def prepare(self, losses: Losses) -> Losses:
        return losses

    @contextmanager
    def synchronized(self, last: bool) -> Iterator[None]:
        self.sharded.set_requires_gradient_sync(last)
        self.sharded.set_is_last_backward(last)
        yield


@contextmanager
def gathered_weights(module: nn.Module) -> Iterator[None]:
    """Gather sharded weights; evaluations call more than the `forward` of modules, which alone does so."""
    sharded = [each for each in module.modules() if isinstance(each, FSDPModule)]
    for each in sharded:
        each.set_reshard_after_forward(False, recurse=False)
        each.unshard()
    try:
        yield
    finally:
        for each in sharded:
            each.set_reshard_after_forward(True, recurse=False)
            each.reshard()


def gather(tensor: Tensor) -> Tensor:
    """Return a sharded tensor as one; all ranks must do so."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def save_shards(groups: Mapping[str, Mapping[str, Tensor]], folder: Path | None) -> None:
    """Write groups of sharded tensors into sub-folders of the folder that rank 0 gives: a safetensors file of
    each rank, which `storage` reads, and PyTorch's `HuggingFaceStorageReader`.

    Raises RuntimeError in every rank if one of them cannot write.
    """
    target = [folder]
    dist.broadcast_object_list(target, 0)
    for group, tensors in groups.items():
        writer = HuggingFaceStorageWriter(f"{target[0]}/{group}", save_distributed=True)
        try:
            save(dict(tensors), storage_writer=writer)
        except CheckpointException as error:
            rank, (reason, _) = next(iter(error.failures.items()))
            raise RuntimeError(f"rank {rank} cannot write its part of {group}: {reason}") from None


def distribute_like(value: Tensor, target: Tensor) -> Tensor:
    """Return a tensor on the device of another and, if that is sharded and as large, its own shard."""
    moved = value.to(target.device)
    if not isinstance(target, DTensor) or value.shape != target.shape:
        return moved
    return distribute_tensor(moved, target.device_mesh, target.placements, src_data_rank=None)
