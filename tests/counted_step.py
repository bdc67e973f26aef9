"""What each rank of a real training step holds, counted: prints it as JSON, one line a rank.

    torchrun --nproc-per-node=2 tests/counted_step.py "igpt.digits parallel=fsdp accumulate=2" ...

Bytes of the weights, gradients and moments that the rank holds after a step, and of its gradients before the
last of several chunks.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

from isopix.core import ranks
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.train.parallel import OneDevice, process_group, whole_weights
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep
from tests.laws import cases


class HeldGradients:
    """Counts the gradients that exist when the last chunk of a step begins."""

    def __init__(self, parallel: OneDevice, weights: list[Parameter]):
        self.parallel, self.weights, self.bytes = parallel, weights, 0
        self.enter, parallel.synchronized = parallel.synchronized, self.synchronized  # type: ignore[method-assign]

    def synchronized(self, last: bool) -> AbstractContextManager[None]:
        if last:
            held = [each.grad for each in self.weights]
            for each in self._sharded():  # summed in another precision, or in the same
                held += [each.unsharded_accumulated_grad, each._unsharded_param.grad]
            self.bytes = sum(nbytes(each) for each in held if each is not None)
        return self.enter(last)

    def _sharded(self) -> Iterator[Any]:
        for module in self.parallel.task.module.modules():
            if isinstance(module, FSDPModule):
                yield from module._get_fsdp_state()._fsdp_param_group.fsdp_params


def nbytes(tensor: Tensor) -> int:
    """The bytes of a tensor, or of this rank's part of it."""
    own = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return own.numel() * own.element_size()


def count(words: str) -> dict[str, Any]:
    """Train three steps of a recipe with settings, and count the third."""
    name, *settings = words.split()
    recipe = registry.resolve(name, settings=settings).recipe
    train = recipe.train
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    network.backbone.recompute = train.recompute
    task = PretrainTask(PretrainModel(network, recipe.objective))
    step = TrainStep(task, replace(train, precision=train.gpu_precision))
    with whole_weights(task.module):  # as in the evaluation before the first step
        pass
    batch = task.make_batch(cases.images(recipe, train.batch_size), None, generator(0, "mask"))
    for number in (1, 2):  # DDP orders its buckets in the first
        step(batch, step=number, lr_factor=1.0)
    weights = list(task.module.parameters())
    held = HeldGradients(step.parallel, weights)
    step(batch, step=3, lr_factor=1.0)
    return {
        "words": words,
        "rank": dist.get_rank(),
        "weights": sum(map(nbytes, weights)),
        "gradients": sum(nbytes(each.grad) for each in weights if each.grad is not None),
        "before_last_chunk": held.bytes,
        "optimizer": sum(nbytes(each) for s in step.optimizer.state.values() for each in s.values()),
    }


def main() -> None:
    with process_group("cpu"):
        for words in sys.argv[1:]:
            os.write(2, f"{json.dumps(count(words))}\n".encode())  # one write, as ranks share the file
    ranks.end_process()


if __name__ == "__main__":
    main()
