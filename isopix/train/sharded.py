"""Training with sharded weights, by PyTorch's FSDP2: each rank has a part of every weight."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

from isopix.core.device import Precision
from isopix.model.blocks.transformer import Block
from isopix.train.parallel import DataParallel, Losses
from isopix.train.tasks import TrainingTask


class ShardedDataParallel(DataParallel):
    """FSDP2: every rank has a part of each weight, its gradient and its moments; a block's weights are
    gathered when it runs, with bf16 in bf16, and gradients summed in fp32.
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
