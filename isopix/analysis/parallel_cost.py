"""A training step on several devices, by DDP or FSDP2: memory, communication and time, before training.

The counts are those of `train.parallel` and `train.sharded`: which tensors are gathered and summed, in which
precision and how often. Times assume what `Cluster` says.
"""

from collections import Counter
from functools import cache
from math import ceil, prod
from typing import NamedTuple

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from isopix.analysis.cluster import Cluster
from isopix.core.device import Precision
from isopix.model.blocks.base import Block
from isopix.model.network import Network
from isopix.train.optim import OptimizerSpec, build_optimizer
from isopix.train.parallel import Strategy

Shape = tuple[int, ...]
FP32 = 4  # bytes: weights, gradients that are summed, and the sums
DDP_BUCKETS = (
    2**20,
    25 * 2**20,
)  # bytes of the first bucket of gradients and of the others, PyTorch's defaults


class ShardingUnit(NamedTuple):
    """Weights that FSDP gathers together, by shape; they are used `runs` times in a forward pass."""

    shapes: tuple[Shape, ...]
    runs: int = 1

    @property
    def numel(self) -> int:
        """The number of weights."""
        return sum(map(prod, self.shapes))

    def shard(self, count: int) -> tuple[Shape, ...]:
        """Return the shapes of the largest of `count` shards, which are parts along the first axis. All
        devices send and receive this many weights, of which the last of a small tensor are padding.
        """
        return tuple((ceil(rows / count), *rest) for rows, *rest in ((s or (1,)) for s in self.shapes))


class TrainingWork(NamedTuple):
    """What is trained. `units` are the weights, those of no block first; `backward_flops` include blocks that
    are computed again. Bytes and FLOPs are those of an image, but `copy_bytes`, which are derived from all
    weights. Activations include the gradient of the logits.
    """

    units: tuple[ShardingUnit, ...]
    optimizer: OptimizerSpec
    precision: Precision
    batch_size: int
    steps: int
    forward_flops: int
    backward_flops: int
    activation_bytes: int
    logits_bytes: int
    copy_bytes: int

    @property
    def gathered_bytes(self) -> int:
        """The bytes of a weight as FSDP gathers it."""
        return 2 if self.precision == "bf16" else FP32


class DeviceMemory(NamedTuple):
    """Bytes of a device when a backward pass begins. DDP's buckets are the gradients. `copies` are the 16-bit
    copies of weights, and `gathered` the whole weights that FSDP holds at a time; `buffers` are its gradients
    on the way to being summed. `activations` do not include the gradients of the logits, which are `logits`.
    """

    weights: int
    gradients: int
    optimizer: int
    copies: int
    gathered: int
    buffers: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self)


class Traffic(NamedTuple):
    """Bytes of all tensors of a step that are gathered before forward and backward passes, reduce-scattered
    and all-reduced; `messages` are their numbers, in this order.
    """

    forward_gathers: int
    backward_gathers: int
    reduce_scatters: int
    all_reduces: int
    messages: tuple[int, int, int, int]

    def sent(self, cluster: Cluster) -> float:
        """Return the bytes that each device sends, and receives, in a step."""
        return cluster.sent(sum(self[:3]) + 2 * self.all_reduces)


class StepTime(NamedTuple):
    """Seconds of a step: computation, the update of the weights, and communication, of which `exposed` is
    what devices wait for.
    """

    compute: float
    update: float
    communication: float
    exposed: float

    @property
    def total(self) -> float:
        """The seconds of a step."""
        return self.compute + self.update + self.exposed


def sharding_units(network: Network) -> tuple[ShardingUnit, ...]:
    """Return the trained weights that FSDP gathers together: those of no block, and each block's own."""
    names = {each: name for name, each in network.named_modules() if isinstance(each, Block)}
    owners = sorted(names.values(), key=len, reverse=True)
    runs = Counter(names[block] for block in network.backbone.layers)
    own: dict[str, list[Shape]] = {"": [], **dict.fromkeys(names.values(), ())}  # type: ignore[arg-type]
    for name, parameter in network.named_parameters():
        owner = next((each for each in owners if name.startswith(f"{each}.")), "")
        own[owner] = [*own[owner], tuple(parameter.shape)]
    return tuple(ShardingUnit(tuple(shapes), runs[name] or 1) for name, shapes in own.items())


@cache
def optimizer_bytes(optimizer: OptimizerSpec, shapes: tuple[Shape, ...]) -> int:
    """Return the bytes of an optimizer's state for float32 weights of these shapes; no memory is used."""
    with FakeTensorMode():
        weights = nn.ParameterList(nn.Parameter(torch.empty(shape)) for shape in shapes)
        for each in weights:
            each.grad = torch.empty_like(each)
        built = build_optimizer(optimizer, weights)
        built.step()
        return sum(
            value.numel() * value.element_size()
            for state in built.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        )


def device_memory(job: TrainingWork, strategy: Strategy, count: int, *, accumulate: int) -> DeviceMemory:
    """Return the memory of each of `count` devices, the batch being in `accumulate` chunks on each."""
    images = job.batch_size // (count * accumulate)
    logits = images * job.logits_bytes
    activations = images * job.activation_bytes - logits
    if strategy == "ddp" or count == 1:
        shapes = tuple(shape for unit in job.units for shape in unit.shapes)
        whole = FP32 * sum(map(prod, shapes))
        state = optimizer_bytes(job.optimizer, shapes)
        return DeviceMemory(whole, whole, state, job.copy_bytes, 0, 0, activations, logits)
    shapes = tuple(shape for unit in job.units for shape in unit.shard(count))
    shard = FP32 * sum(map(prod, shapes))
    whole = FP32 * sum(unit.numel for unit in job.units)
    largest = max(unit.numel for unit in job.units[1:] or job.units)
    return DeviceMemory(
        weights=shard,
        # Until the last chunk, which alone is summed, each device has the gradients of all weights.
        gradients=whole if accumulate > 1 else shard,
        optimizer=optimizer_bytes(job.optimizer, shapes),
        copies=0,  # weights are gathered in 16 bits
        gathered=job.gathered_bytes * (job.units[0].numel + 2 * largest),  # one in use, and the next
        buffers=(job.gathered_bytes + 2 * FP32) * largest,  # gradients, copied to what is sent; and the last
        activations=activations,
        logits=logits,
    )


def traffic(job: TrainingWork, strategy: Strategy, count: int, *, accumulate: int) -> Traffic:
    """Return what `count` devices exchange in a step whose batch is in `accumulate` chunks on each."""
    if count == 1:
        return Traffic(0, 0, 0, 0, (0, 0, 0, 0))
    if strategy == "ddp":
        buckets = bucket_bytes(job)
        return Traffic(0, 0, 0, sum(buckets), (0, 0, 0, len(buckets)))
    padded = [count * sum(map(prod, unit.shard(count))) for unit in job.units]
    runs = [unit.runs for unit in job.units]
    used = sum(run * size for run, size in zip(runs, padded, strict=True))
    gathers, messages = accumulate * job.gathered_bytes * used, accumulate * sum(runs)
    return Traffic(gathers, gathers, FP32 * sum(padded), 0, (messages, messages, len(padded), 0))


def bucket_bytes(job: TrainingWork) -> list[int]:
    """Return the bytes of the buckets in which DDP sums gradients, in the order of the backward pass. A
    bucket ends with the gradient that fills it.
    """
    buckets = [0]
    for unit in reversed(job.units):
        for shape in reversed(unit.shapes):
            if buckets[-1] >= DDP_BUCKETS[len(buckets) > 1]:
                buckets.append(0)
            buckets[-1] += FP32 * prod(shape)
    return buckets


def step_time(job: TrainingWork, strategy: Strategy, cluster: Cluster, *, accumulate: int) -> StepTime:
    """Return the time of a step.

    Where communication overlaps with computation, DDP sums gradients during the backward pass of the last
    chunk, but the last bucket. FSDP gathers the next block during both passes of each chunk, and sums
    gradients during the last backward pass; devices wait for the weights outside of blocks when a chunk
    begins, and for the sum of their gradients at the end.
    """
    count = cluster.num_devices
    found = traffic(job, strategy, count, accumulate=accumulate)
    images = job.batch_size / count
    forward, backward = (images * flops / cluster.flops for flops in (job.forward_flops, job.backward_flops))
    forward_gathers, backward_gathers, reduces, all_reduces = found.messages
    before = cluster.gather_seconds(found.forward_gathers, forward_gathers)
    during = cluster.gather_seconds(found.backward_gathers, backward_gathers)
    after = cluster.gather_seconds(found.reduce_scatters, reduces)
    summed = cluster.all_reduce_seconds(found.all_reduces, all_reduces)
    communication = before + during + after + summed
    if not cluster.overlaps or count == 1:
        exposed = communication
    elif strategy == "ddp":
        last = cluster.all_reduce_seconds(bucket_bytes(job)[-1])
        exposed = max(last, summed - backward / accumulate)
    else:
        root = count * sum(map(prod, job.units[0].shard(count)))
        first = accumulate * cluster.gather_seconds(job.gathered_bytes * root)
        last = cluster.gather_seconds(FP32 * root)
        exposed = max(first, before - forward) + _exposed_backward(
            during / accumulate, after, backward / accumulate, accumulate, last
        )
    moved = update_bytes(job, strategy, count)
    return StepTime(forward + backward, moved / cluster.memory_bandwidth, communication, exposed)


def _exposed_backward(gathers: float, reduces: float, backward: float, accumulate: int, last: float) -> float:
    """Seconds of waiting in the backward passes of all chunks, the last of which also sums gradients."""
    earlier = (accumulate - 1) * max(0.0, gathers - backward)
    return earlier + max(last, gathers + reduces - backward)


def update_bytes(job: TrainingWork, strategy: Strategy, count: int) -> int:
    """Return the bytes that a device reads and writes to update its weights: gradients are read, weights and
    optimizer state read and written.
    """
    memory = device_memory(job, strategy, count, accumulate=1)
    return 2 * memory.weights + memory.gradients + 2 * memory.optimizer


def parallel_efficiency(job: TrainingWork, time: StepTime, cluster: Cluster) -> float:
    """Return the speed, given the time of a step on a cluster, relative to as many times that of one of its
    devices on this job, had it enough memory.
    """
    alone = cluster._replace(nodes=1, per_node=1)
    return step_time(job, "ddp", alone, accumulate=1).total / (cluster.num_devices * time.total)
