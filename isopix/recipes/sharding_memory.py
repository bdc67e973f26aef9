"""Memory of a training step on several devices by DDP and FSDP2, before training, and what fits."""

import re
from collections.abc import Iterable, Sequence
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
from isopix.model.blocks.transformer import Block
from isopix.model.network import Network
from isopix.recipes.cost import WARN_ABOVE, divisors, memory_by_depth, training_flops
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import DeviceMemory, ParallelPlan, TrainingMemory
from isopix.train.config import OptimizerSpec, TrainConfig
from isopix.train.parallel import Strategy

Shape = tuple[int, ...]
FP32 = 4  # bytes: weights, gradients that are summed, and the sums
NODE_DEVICES = 8  # at most, of one machine
DEVICES = re.compile(r"([1-9]\d*)(?: *[x×*] *(\S.*))?", re.IGNORECASE)
RENDEZVOUS = "--rdzv-backend=c10d --rdzv-endpoint=HOST:29500"


class TrainingWork(NamedTuple):
    """Shapes of the weights that FSDP gathers together, those of no block first, and memory of one device."""

    units: tuple[tuple[Shape, ...], ...]
    memory: TrainingMemory
    train: TrainConfig


def sharding_units(network: Network) -> tuple[tuple[Shape, ...], ...]:
    """Return the shapes of the weights that FSDP gathers together: those of no block, and each block's."""
    units, seen = list[tuple[Shape, ...]](), set[nn.Parameter]()
    blocks = [each for each in network.modules() if isinstance(each, Block)]
    for module in reversed([network, *blocks]):  # those inside of others first
        own = [each for each in module.parameters() if each not in seen]
        units.insert(0, tuple(tuple(each.shape) for each in own))
        seen.update(own)
    return tuple(units)


@cache
def optimizer_bytes(optimizer: OptimizerSpec, shapes: tuple[Shape, ...]) -> int:
    """Return the bytes of an optimizer's state for float32 weights of these shapes; no memory is used."""
    with FakeTensorMode():
        weights = nn.ParameterList(nn.Parameter(torch.empty(shape)) for shape in shapes)
        for each in weights:
            each.grad = torch.empty_like(each)
        built = optimizer.build(weights.parameters())
        built.step()
        states = [value for state in built.state.values() for value in state.values()]
        return sum(each.numel() * each.element_size() for each in states if isinstance(each, torch.Tensor))


def device_memory(work: TrainingWork, strategy: Strategy, count: int, *, accumulate: int) -> DeviceMemory:
    """Return the memory of each of `count` devices, the batch being in `accumulate` chunks on each."""
    units, memory, train = work
    activations = train.batch_size // (count * accumulate) * memory.activation_bytes
    shapes = tuple(shape for unit in units for shape in unit)
    whole = FP32 * _count(shapes)
    if strategy == "ddp" or count == 1:
        state = optimizer_bytes(train.optimizer, shapes)
        return DeviceMemory(whole, whole, state, memory.copy_bytes, activations)
    # The largest of the shards, which are parts along the first axis.
    shards = tuple((ceil(rows / count), *rest) for rows, *rest in (shape or (1,) for shape in shapes))
    largest = max(map(_count, units[1:] or units))
    gathered = 2 if train.gpu_precision == "bf16" else FP32  # bytes of a weight as FSDP gathers it
    weights = gathered * (_count(units[0]) + 2 * largest)  # a block in use, and the next
    gradients = (gathered + 2 * FP32) * largest  # copied to what is sent; and the last
    return DeviceMemory(
        weights=FP32 * _count(shards),
        # Until the last chunk, which alone is summed, each device has the gradients of all weights.
        gradients=whole if accumulate > 1 else FP32 * _count(shards),
        optimizer=optimizer_bytes(train.optimizer, shards),
        copies=weights + gradients,
        activations=activations,
    )


def _count(shapes: Iterable[Shape]) -> int:
    return sum(map(prod, shapes))


def parallel_plans(
    recipe: Recipe, devices: str, words: Sequence[object], *, own_device: str | None = None, mfu: float = MFU
) -> list[ParallelPlan]:
    """Return DDP and FSDP on devices such as `64xH100`, with the fewest chunks of the batch that fit."""
    train = recipe.train
    device, count = _parse_devices(devices, train.gpu_precision, own_device)
    try:
        train.check_ranks(count)
    except ValueError as error:
        counts = ", ".join(map(str, divisors(train.batch_size // train.accumulate)))
        raise ValueError(f"{count}x{device}: {error}; allowed numbers of devices: {counts}") from None
    flops_per_hour = 3600 * count * mfu * peak_flops_by_device(train.gpu_precision)[device]
    recipes = [recipe.updated(recompute=each) for each in (False, True)]
    units = sharding_units(recipe.outline())
    memories = list(map(memory_by_depth, recipes))
    # Autocast has the copies of all weights until the forward pass ends, also of blocks that are recomputed.
    memories[1] = memories[1]._replace(copy_bytes=memories[0].copy_bytes)
    works = [
        (TrainingWork(units, memory, each.train), training_flops(each) / flops_per_hour)
        for each, memory in zip(recipes, memories, strict=True)
    ]
    strategies: tuple[Strategy, ...] = ("ddp", "fsdp") if count > 1 else ("ddp",)
    return [
        _fewest_chunks(work, strategy, device, count, hours, words)
        for strategy in strategies
        for work, hours in works
    ]


def _fewest_chunks(
    work: TrainingWork, strategy: Strategy, device: str, count: int, hours: float, words: Sequence[object]
) -> ParallelPlan:
    """Return a plan with the fewest chunks that fit, or with the least memory where none does."""
    train, limit = work.train, round(WARN_ABOVE * DEVICE_SPECS[device].memory)
    share = train.batch_size // count
    memory = {
        chunks: device_memory(work, strategy, count, accumulate=chunks)
        for chunks in divisors(share)
        if chunks % train.accumulate == 0
    }
    least = min(memory, key=lambda chunks: memory[chunks].total)
    chunks = next((each for each in memory if memory[each].total <= limit), least)
    settings = [
        *[f"parallel={strategy}"] * (strategy != "ddp"),
        *["recompute=true"] * train.recompute,
        *[f"accumulate={chunks}"] * (chunks > 1),
    ]
    return ParallelPlan(
        device=device,
        count=count,
        strategy=strategy,
        recompute=train.recompute,
        accumulate=chunks,
        micro_batch=share // chunks,
        memory=memory[chunks],
        memory_limit=limit,
        hours=hours,
        command=_command(["pretrain", *words, *settings, "--out", "RUN"], count),
    )


def _command(training: Sequence[object], count: int) -> str:
    per_node = next(each for each in range(NODE_DEVICES, 0, -1) if count % each == 0)
    if count == per_node:
        return command_line(*training, *(["--devices", count] if count > 1 else []))
    nodes = f"--nnodes={count // per_node} --nproc-per-node={per_node}"
    return f"torchrun {nodes} {RENDEZVOUS} -m {command_line(*training)}"


def _parse_devices(text: str, precision: Precision, own_device: str | None) -> tuple[str, int]:
    known = {_plain(name): name for name in peak_flops_by_device(precision) if DEVICE_SPECS[name].drivers}
    found = DEVICES.fullmatch(text.strip())
    name = _plain(found[2] or own_device or "") if found else ""
    if not found or name not in known:
        raise ValueError(
            f"devices '{text}'; allowed: a number of at least 1, x, and a device whose {precision} peak is "
            f"known, as in 64xH100: {', '.join(known.values())}"
        )
    return known[name], int(found[1])


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()
