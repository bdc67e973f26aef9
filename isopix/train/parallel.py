"""Training in several processes, each with a device of its own, by PyTorch's DDP and FSDP2.

Each rank makes the whole batch of a step, computes the losses of its own images, and evaluates, so that all
do the same without messages; gradients are summed, and rank 0 saves and prints.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from itertools import count, islice
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any, Literal, TypeVar, cast
from warnings import catch_warnings, simplefilter

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import distributed_c10d
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from isopix.core import ranks
from isopix.core.device import DeviceLike, Precision, select_device, use_device
from isopix.core.signals import handled_by
from isopix.core.types import Scalar
from isopix.train.tasks import Batch, TrainingTask

Strategy = Literal["ddp", "fsdp"]
Losses = Callable[[Batch], Mapping[str, Scalar]]
T = TypeVar("T")

CONNECTION_TIMEOUT = timedelta(minutes=2)  # of ranks whose start differs by their imports
TIMEOUT = timedelta(minutes=30)  # for a rank that saves while the others wait

_numbers = count()  # of groups and stores; all ranks make them in the same order


@contextmanager
def process_group(device: DeviceLike) -> Iterator[torch.device]:
    """Join torchrun's other ranks, which print only errors, and yield this one's device; alone, `device`."""
    if not ranks.are_started() or dist.is_initialized():
        yield _own_device(device)
        return
    where = _own_device(device)
    gpu = where if where.type == "cuda" else None
    use_device(where)
    with handled_by(signal.SIG_DFL):  # C++ code that waits calls no handlers
        # The store of torchrun may have addresses of earlier groups: before a restart, or of this process.
        store, rank, num_ranks = next(rendezvous("env://", timeout=CONNECTION_TIMEOUT))
        prefix = f"isopix-{ranks.num_restarts()}-{next(_numbers)}"
        own = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]  # it is documented
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if gpu else "gloo",
            timeout=CONNECTION_TIMEOUT,
            store=own,
            rank=rank,
            world_size=num_ranks,
            device_id=gpu,
        )
    distributed_c10d._set_pg_timeout(TIMEOUT)
    if dist.get_rank() > 0:
        sys.stdout.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        getLogger("isopix").setLevel(ERROR)
    try:
        yield where
    finally:
        if sys.exc_info()[0] is None:  # after an error others may be waiting, and the end of this process
            dist.destroy_process_group()  # tells them


def _own_device(device: DeviceLike) -> torch.device:
    """Return the device of this rank: `cuda` or `auto` is the GPU of its number."""
    found = select_device(device)
    if found.type != "cuda" or not ranks.are_started():
        return found
    if found.index is not None and ranks.num_ranks() > 1:
        raise ValueError(f"device is '{device}', but each rank needs its own GPU; allowed: auto, cuda, cpu")
    return select_device(f"cuda:{ranks.local_rank()}")


def is_parallel() -> bool:
    """Whether this process is one of several that work together."""
    return dist.is_initialized() and dist.get_world_size() > 1


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def own_images(batch_size: int) -> slice | None:
    """Return the images of a batch that this rank uses; None for all."""
    if not is_parallel():
        return None
    count = batch_size // dist.get_world_size()
    return slice(_rank() * count, (_rank() + 1) * count)


def barrier() -> None:
    """Wait for all ranks."""
    if is_parallel():
        agree([])


def agree(flags: Sequence[bool]) -> list[bool]:
    """Return for each flag whether any rank has set it."""
    if not is_parallel():
        return list(flags)
    found = torch.tensor([*flags, False], dtype=torch.uint8)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return [bool(each) for each in found[:-1]]


def first_rank_first(load: Callable[[], T]) -> T:
    """Call a function in rank 0, and then in the others."""
    found = load() if _rank() == 0 else None
    barrier()
    return load() if found is None else found


class OneDevice:
    """Training in one process; also what other strategies share."""

    def __init__(self, task: TrainingTask):
        self.task = task
        self.rank, self.num_ranks = 0, 1
        self.shards_weights = False

    def name(self, purpose: str) -> str:
        """Return the purpose of random numbers that each rank draws for its own images."""
        return f"{purpose}/{self.rank}" if self.rank else purpose

    def prepare(self, losses: Losses) -> Losses:
        """Return the function of the losses of a chunk, after which gradients can be computed."""
        return losses

    def chunks(self, batch: Batch, accumulate: int) -> Iterator[tuple[Batch, bool]]:
        """Yield the own chunks of a batch, `accumulate` for each rank, and whether each is the last."""
        first, parts = self.rank * accumulate, batch.chunks(self.num_ranks * accumulate)
        for number, chunk in enumerate(islice(parts, first, first + accumulate), start=1):
            yield chunk, number == accumulate

    def synchronized(self, last: bool) -> AbstractContextManager[None]:
        """Return a context for the losses and gradients of a chunk; after the last one they are summed."""
        return nullcontext()

    def backward(self, loss: Scalar) -> None:
        torch.autograd.backward(loss)

    def total(self, losses: dict[str, Scalar]) -> dict[str, Scalar]:
        """Return the losses of the batch: the sums of those of all ranks."""
        return losses


class DataParallel(OneDevice):
    """DDP: every rank has all weights; gradients are summed while they are computed."""

    def __init__(self, task: TrainingTask):
        super().__init__(task)
        self.rank, self.num_ranks = dist.get_rank(), dist.get_world_size()

    def prepare(self, losses: Losses) -> Losses:
        device = next(self.task.module.parameters()).device
        with catch_warnings():
            simplefilter("ignore", FutureWarning)  # of the argument's new name, which older versions lack
            self.wrapped = DistributedDataParallel(
                _LossModule(self.task.module, losses),
                device_ids=[device] if device.type == "cuda" else None,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
            )
        return cast("Losses", self.wrapped)

    def synchronized(self, last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else cast("AbstractContextManager[None]", self.wrapped.no_sync())

    def backward(self, loss: Scalar) -> None:
        torch.autograd.backward(loss * self.num_ranks)  # both engines divide by the number of ranks

    def total(self, losses: dict[str, Scalar]) -> dict[str, Scalar]:
        summed = torch.stack([loss.float() for loss in losses.values()])
        dist.all_reduce(summed)
        return dict(zip(losses, summed.unbind(), strict=True))


class _LossModule(nn.Module):
    """The losses of a task as a module, as DDP wants it."""

    def __init__(self, module: nn.Module, losses: Losses):
        super().__init__()
        self.module, self.losses = module, losses

    def forward(self, batch: Batch) -> dict[str, Scalar]:
        return dict(self.losses(batch))


def strategy(task: TrainingTask, name: Strategy, precision: Precision) -> OneDevice:
    """Return how the processes train a task, whose weights may be sharded from now on."""
    if not is_parallel():
        return OneDevice(task)
    if name == "ddp":
        return DataParallel(task)
    from isopix.train.sharded import ShardedDataParallel  # noqa: PLC0415  half a second

    return ShardedDataParallel(task, precision)


@contextmanager
def whole_weights(module: nn.Module) -> Iterator[None]:
    """Gather sharded weights, for what calls more than `forward`; all ranks must enter it."""
    sharded = list[Any]()
    if is_parallel():
        from torch.distributed.fsdp import FSDPModule  # noqa: PLC0415  half a second

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


def full(tensor: Tensor) -> Tensor:
    """Return a tensor as one; a sharded one is gathered, which all ranks must do."""
    return cast("Any", tensor).full_tensor() if is_sharded([tensor]) else tensor


def is_sharded(tensors: Iterable[Tensor]) -> bool:
    """Return whether ranks have parts of some of these tensors."""
    if not is_parallel():
        return False
    from torch.distributed.tensor import DTensor  # noqa: PLC0415  half a second

    return any(isinstance(each, DTensor) for each in tensors)


def shard_like(value: Tensor, target: Tensor) -> Tensor:
    """Return a tensor on the device of another, its own shard where that is sharded and as large."""
    moved = value.to(target.device)
    if not is_sharded([target]) or value.shape != target.shape:
        return moved
    from torch.distributed.tensor import distribute_tensor  # noqa: PLC0415

    like = cast("Any", target)
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)


def write_shards(groups: Mapping[str, Mapping[str, Tensor]], folder: Path | None = None) -> None:
    """Write groups of sharded tensors into subfolders of rank 0's folder, a safetensors file of each rank,
    which `storage` reads, and PyTorch's `HuggingFaceStorageReader`. All ranks raise if one cannot.
    """
    from torch.distributed.checkpoint.api import CheckpointException  # noqa: PLC0415
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter  # noqa: PLC0415
    from torch.distributed.checkpoint.state_dict_saver import save  # noqa: PLC0415

    target = [folder]
    dist.broadcast_object_list(target, 0)
    for group, tensors in groups.items():
        writer = HuggingFaceStorageWriter(f"{target[0]}/{group}", save_distributed=True)
        try:
            save(dict(tensors), storage_writer=writer)
        except CheckpointException as error:
            rank, (reason, _) = next(iter(error.failures.items()))
            raise RuntimeError(f"rank {rank} cannot write its part of {group}: {reason}") from None
