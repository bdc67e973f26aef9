"""Plans of training on several devices by DDP and FSDP2: memory, what fits, hours and the command."""

import re
from collections.abc import Sequence

from isopix.core.choices import MFU
from isopix.core.device import Precision, peak_flops_by_device
from isopix.core.device_specs import DEVICE_SPECS
from isopix.core.text import command_line
from isopix.recipes.cost import WARN_ABOVE, divisors, memory_by_depth, state_bytes, training_flops
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import ParallelPlan, TrainingMemory
from isopix.train.parallel import Strategy

NODE_DEVICES = 8  # at most, of one machine
DEVICES = re.compile(r"([1-9]\d*)(?: *[x×*] *(\S.*))?", re.IGNORECASE)
RENDEZVOUS = "--rdzv-backend=c10d --rdzv-endpoint=HOST:29500"


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
    memories = list(map(memory_by_depth, recipes))
    # Autocast has the copies of all weights until the forward pass ends, also of blocks that are recomputed.
    memories[1] = memories[1]._replace(copy_bytes=memories[0].copy_bytes)
    strategies: tuple[Strategy, ...] = ("ddp", "fsdp") if count > 1 else ("ddp",)
    return [
        _fewest_chunks(each.updated(parallel=strategy), memory, device, count, flops_per_hour, words)
        for strategy in strategies
        for each, memory in zip(recipes, memories, strict=True)
    ]


def _fewest_chunks(
    recipe: Recipe,
    memory: TrainingMemory,
    device: str,
    count: int,
    flops_per_hour: float,
    words: Sequence[object],
) -> ParallelPlan:
    """Return a plan with the fewest chunks that fit, or with the least memory where none does."""
    train, limit = recipe.train, round(WARN_ABOVE * DEVICE_SPECS[device].memory)
    share = train.batch_size // count
    states = {each: state_bytes(recipe, memory, count, in_chunks=each) for each in (False, True)}
    needed = {
        chunks: states[chunks > 1] + share // chunks * memory.activation_bytes
        for chunks in divisors(share)
        if chunks % train.accumulate == 0
    }
    chunks = next((each for each in needed if needed[each] <= limit), min(needed, key=needed.__getitem__))
    settings = [
        *[f"parallel={train.parallel}"] * (train.parallel != "ddp"),
        *["recompute=true"] * train.recompute,
        *[f"accumulate={chunks}"] * (chunks > 1),
    ]
    return ParallelPlan(
        device=device,
        count=count,
        strategy=train.parallel,
        recompute=train.recompute,
        accumulate=chunks,
        micro_batch=share // chunks,
        memory=needed[chunks],
        memory_limit=limit,
        hours=training_flops(recipe) / flops_per_hour,
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
