"""Memory of a training step on several devices by DDP and FSDP2, before training, and what fits.

Which tensors each device holds, and in which precision, is that of `train.parallel` and `train.sharded`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import ceil, prod
from typing import NamedTuple

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from isopix.core.choices import MFU
from isopix.core.device import Precision, peak_flops_by_device
from isopix.core.device_specs import DEVICE_SPECS
from isopix.core.text import command_line
from isopix.model.blocks.base import Block
from isopix.model.network import Network
from isopix.recipes.cost import WARN_ABOVE, divisors, logits_gradient_bytes, memory_by_depth, recipe_cost
from isopix.recipes.plan_result import DeviceMemory, ParallelPlan
from isopix.recipes.recipe import Recipe
from isopix.train.optim import OptimizerSpec, build_optimizer
from isopix.train.parallel import Strategy

Shape = tuple[int, ...]
FP32 = 4  # bytes: weights, gradients that are summed, and the sums
NODE_DEVICES = 8  # at most, of one machine
DEVICES = re.compile(r"(\d+)(?: *[x×*] *(\S.*))?", re.IGNORECASE)
RENDEZVOUS = "--rdzv-backend=c10d --rdzv-endpoint=HOST:29500"


class ShardingUnit(NamedTuple):
    """Weights that FSDP gathers together, by shape."""

    shapes: tuple[Shape, ...]

    @property
    def numel(self) -> int:
        """The number of weights."""
        return sum(map(prod, self.shapes))

    def shard(self, count: int) -> tuple[Shape, ...]:
        """Return the shapes of the largest of `count` shards, which are parts along the first axis."""
        return tuple((ceil(rows / count), *rest) for rows, *rest in ((s or (1,)) for s in self.shapes))


class TrainingWork(NamedTuple):
    """What is trained. `units` are the weights, those of no block first; bytes are those of an image, but
    `copy_bytes`, which are derived from all weights. Activations include the gradient of the logits.
    """

    units: tuple[ShardingUnit, ...]
    optimizer: OptimizerSpec
    precision: Precision
    batch_size: int
    activation_bytes: int
    logits_bytes: int
    copy_bytes: int


def sharding_units(network: Network) -> tuple[ShardingUnit, ...]:
    """Return the trained weights that FSDP gathers together: those of no block, and each block's own."""
    names = {each: name for name, each in network.named_modules() if isinstance(each, Block)}
    owners = sorted(names.values(), key=len, reverse=True)
    own: dict[str, list[Shape]] = {"": [], **{name: [] for name in names.values()}}
    for name, parameter in network.named_parameters():
        owner = next((each for each in owners if name.startswith(f"{each}.")), "")
        own[owner].append(tuple(parameter.shape))
    return tuple(ShardingUnit(tuple(shapes)) for shapes in own.values())


@cache
def optimizer_bytes(optimizer: OptimizerSpec, shapes: tuple[Shape, ...]) -> int:
    """Return the bytes of an optimizer's state for float32 weights of these shapes; no memory is used."""
    with FakeTensorMode():
        weights = nn.ParameterList(nn.Parameter(torch.empty(shape)) for shape in shapes)
        for each in weights:
            each.grad = torch.empty_like(each)
        built = build_optimizer(optimizer, weights)
        built.step()
        states = [value for state in built.state.values() for value in state.values()]
        return sum(each.numel() * each.element_size() for each in states if isinstance(each, torch.Tensor))


def training_work(recipe: Recipe, *, recompute: bool) -> TrainingWork:
    """Return what training a recipe takes. Raises ValueError for a network too large for any memory."""
    # Autocast has the copies of all weights until the forward pass ends, also of blocks that are recomputed.
    copies = memory_by_depth(recipe.updated(recompute=False))
    recipe = recipe.updated(recompute=recompute)
    memory, train = memory_by_depth(recipe), recipe.train
    if memory is None or copies is None:
        raise ValueError(f"a network of width {recipe.model.width} is too large for any memory")
    return TrainingWork(
        units=sharding_units(recipe.outline()),
        optimizer=train.optimizer,
        precision=train.gpu_precision,
        batch_size=train.batch_size,
        activation_bytes=memory.activation_bytes,
        logits_bytes=logits_gradient_bytes(recipe),
        copy_bytes=copies.copy_bytes,
    )


def device_memory(job: TrainingWork, strategy: Strategy, count: int, *, accumulate: int) -> DeviceMemory:
    """Return the memory of each of `count` devices, the batch being in `accumulate` chunks on each."""
    images = job.batch_size // (count * accumulate)
    logits = images * job.logits_bytes
    activations = images * job.activation_bytes - logits
    whole = FP32 * sum(unit.numel for unit in job.units)
    if strategy == "ddp" or count == 1:
        state = optimizer_bytes(job.optimizer, tuple(shape for unit in job.units for shape in unit.shapes))
        return DeviceMemory(whole, whole, state, job.copy_bytes, 0, 0, activations, logits)
    shapes = tuple(shape for unit in job.units for shape in unit.shard(count))
    shard = FP32 * sum(map(prod, shapes))
    largest = max(unit.numel for unit in job.units[1:] or job.units)
    gathered = 2 if job.precision == "bf16" else FP32  # bytes of a weight as FSDP gathers it
    return DeviceMemory(
        weights=shard,
        # Until the last chunk, which alone is summed, each device has the gradients of all weights.
        gradients=whole if accumulate > 1 else shard,
        optimizer=optimizer_bytes(job.optimizer, shapes),
        copies=0,  # weights are gathered in 16 bits
        gathered=gathered * (job.units[0].numel + 2 * largest),  # one in use, and the next
        buffers=(gathered + 2 * FP32) * largest,  # gradients, copied to what is sent; and the last
        activations=activations,
        logits=logits,
    )


def parallel_plans(
    recipe: Recipe, devices: str, words: Sequence[object], *, own_device: str | None = None, mfu: float = MFU
) -> list[ParallelPlan]:
    """Return the strategies on devices such as `64xH100`, or a number of `own_device`: DDP and FSDP, with all
    activations and with recomputation, with the fewest chunks of the batch that fit. `words` are the
    recipe and the options of its command.

    Raises ValueError for unknown devices and a batch that cannot be split over them.
    """
    train = recipe.train
    device, count = _parse_devices(devices, train.gpu_precision, own_device)
    try:
        train.check_ranks(count)
    except ValueError as error:
        counts = ", ".join(map(str, divisors(train.batch_size // train.accumulate)))
        raise ValueError(f"{count}x{device}: {error}; allowed numbers of devices: {counts}") from None
    flops_per_hour = 3600 * count * mfu * peak_flops_by_device(train.gpu_precision)[device]
    found = []
    for recompute in (False, True):
        job = training_work(recipe, recompute=recompute)
        flops = recipe_cost(recipe.updated(recompute=recompute)).training_flops
        hours = flops * train.steps * train.batch_size / flops_per_hour
        for strategy in ("ddp", "fsdp") if count > 1 else ("ddp",):
            plan = _fewest_chunks(job, strategy, (device, count), train.accumulate)
            plan = replace(plan, recompute=recompute, hours=hours)
            found.append(replace(plan, command=_command(plan, words)))
    return sorted(found, key=lambda plan: plan.strategy)  # DDP first


def _fewest_chunks(
    job: TrainingWork, strategy: Strategy, devices: tuple[str, int], accumulate: int
) -> ParallelPlan:
    """Return a plan with the fewest chunks that fit, of those that are a multiple of `accumulate`; with the
    least memory where none fits.
    """
    device, count = devices
    limit, share = round(WARN_ABOVE * DEVICE_SPECS[device].memory), job.batch_size // count
    plans = [
        ParallelPlan(
            device,
            count,
            strategy,
            chunks,
            share // chunks,
            device_memory(job, strategy, count, accumulate=chunks),
            limit,
        )
        for chunks in divisors(share)
        if chunks % accumulate == 0
    ]
    return next((each for each in plans if each.fits), min(plans, key=lambda each: each.memory.total))


def _command(plan: ParallelPlan, words: Sequence[object]) -> str:
    """Return the command that trains by a plan, by torchrun on several machines."""
    training = ["pretrain", *words, *plan.settings, "--out", "RUN"]
    per_node = next(each for each in range(NODE_DEVICES, 0, -1) if plan.count % each == 0)
    if plan.count == per_node:
        return command_line(*training, *(["--devices", plan.count] if plan.count > 1 else []))
    nodes = f"--nnodes={plan.count // per_node} --nproc-per-node={per_node}"
    return f"torchrun {nodes} {RENDEZVOUS} -m {command_line(*training)}"


def _parse_devices(text: str, precision: Precision, own_device: str | None) -> tuple[str, int]:
    """Return the name and the number of the devices of `64xH100`; a number alone is that of `own_device`."""
    found = DEVICES.fullmatch(text.strip())
    if not found or not int(found[1]):
        raise ValueError(f"devices '{text}'; allowed: a number of at least 1, x, and a device, as in 64xH100")
    known = {_plain(name): name for name in peak_flops_by_device(precision) if DEVICE_SPECS[name].is_gpu}
    allowed, name = ", ".join(known.values()), found[2] or own_device
    if name is None:
        raise ValueError(
            f"devices '{text}' names no device, and this one is not known; allowed: {text}xNAME, of {allowed}"
        )
    if _plain(name) not in known:
        raise ValueError(f"devices '{text}': no {precision} peak of '{name}' is known; allowed: {allowed}")
    return known[_plain(name)], int(found[1])


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()
