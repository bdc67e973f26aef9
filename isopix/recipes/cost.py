"""Cost of training a recipe, estimated before training: parameters, FLOPs, memory and time."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import isqrt

import torch
from torch import Tensor, UntypedStorage, nn
from torch._subclasses import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from isopix.core.choices import MFU
from isopix.core.device import Precision, autocast, peak_flops_by_device, synchronize
from isopix.core.random import generator
from isopix.core.text import count_of, format_bytes
from isopix.core.types import Grid
from isopix.model.embedding_conv import taps
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe
from isopix.recipes.results import DeviceCost, ModelCost, TrainingMemory

FP32, BYTES_PER_PARAMETER = 4, 16  # float32 weight, gradient, and Adam's two moments
SMALL_BATCH, LARGE_BATCH = 8, 16  # memory per image is the slope between steps of these two sizes
WARN_ABOVE = 0.8  # of the free memory
SMALL = 0.1


def recipe_cost(recipe: Recipe) -> ModelCost:
    """Return the number of parameters and the FLOPs per image; a multiply-add is two FLOPs.

    Training takes three times the forward pass, and the blocks once more where they are recomputed. All
    blocks are counted in full; with token dropping, stem and blocks at visible positions.
    """
    network = recipe.outline()
    codec, width, grid, spec = network.codec, recipe.model.width, recipe.grid, recipe.model
    decoded = decoded_positions(recipe)
    visible = grid.positions - decoded if recipe.objective.corruption.drops_tokens else grid.positions
    tokens = visible + spec.class_token
    shape = grid if tokens == grid.positions else Grid(1, tokens)
    blocks = spec.depth * spec.block.flops(shape, width, recipe.objective.causal)
    if spec.attention_rows:
        unseen = max(0, grid.positions - spec.attention_rows * grid.cols)  # by the last position
        blocks -= (spec.depth - 1) * 2 * width * unseen * (unseen + 1)
    near = 2 * width * len(taps(recipe.objective.causal)) * spec.embedding_conv
    stem = visible * (spec.stem.flops_per_token(codec, width) + near)
    corruption = recipe.objective.corruption
    head = decoded * spec.head.flops_per_token(codec, corruption.decoded_width(width))
    forward = stem + blocks + corruption.decoder_flops(spec.block, grid, width) + head
    return ModelCost(
        num_parameters(network), forward, 3 * forward + (blocks if recipe.train.recompute else 0)
    )


def training_flops(recipe: Recipe) -> int:
    """Return the FLOPs of a training."""
    return recipe_cost(recipe).training_flops * recipe.train.steps * recipe.train.batch_size


def recipe_memory(recipe: Recipe) -> TrainingMemory:
    """Estimate the memory of training with Adam in float32, without allocating it.

    The sum of 16 bytes per parameter, with `ema` 20, all tensors that a CPU saves for the backward pass (of
    recomputed blocks the inputs, and all of one), and the gradient of the head's float32 outputs. Other
    gradients and allocator overhead come on top. Raises ValueError if the sizes of tensors overflow.
    """
    codec, depth = recipe.model.codec.placeholder(recipe.grid), recipe.model.depth
    try:
        parameters, small, large, *recomputed = _bytes_by_depth(recipe)
    except RuntimeError:
        message = f"a network of width {recipe.model.width} is too large for any memory"
        raise ValueError(message) from None
    if recomputed:  # all of one block, of the others the inputs
        few, many = recomputed
        small, large = few + (small - few) // depth, many + (large - many) // depth
    per_image = (large - small) // (LARGE_BATCH - SMALL_BATCH)
    outputs = codec.num_codes * (codec.vocab_size if recipe.model.head.categorical else 1)
    return TrainingMemory(
        (BYTES_PER_PARAMETER + FP32 * (recipe.train.ema is not None)) * parameters,
        max(0, small - SMALL_BATCH * per_image),
        per_image + 4 * outputs * decoded_positions(recipe),
    )


def decoded_positions(recipe: Recipe) -> int:
    """Return the expected number of positions per image with any code in the loss: those the head decodes."""
    codec, positions = recipe.model.codec.placeholder(recipe.grid), recipe.grid.positions
    return round(positions * recipe.objective.decoded_fraction(positions, codec.num_codes))


def check_memory(recipe: Recipe, *, total: int, free: int, num_ranks: int = 1) -> str:
    """Return a warning if training needs more than 80% of the `free` bytes of a device; empty otherwise.

    Raises ValueError, with the batch size or the number of chunks that fits, if it needs more than `total`.
    Each of `num_ranks` devices has a part of the batch and, with FSDP, of the weights.
    """
    train = recipe.train
    chunk = train.batch_size // train.accumulate // num_ranks
    if _is_small(recipe, chunk, free):
        return ""
    memory = recipe_memory(recipe)
    state = state_bytes(recipe, memory, num_ranks, in_chunks=train.accumulate > 1)
    needed = state + chunk * memory.activation_bytes
    if needed <= WARN_ABOVE * free:
        return ""
    fits = num_ranks * (max(0, round(WARN_ABOVE * free) - state) // max(1, memory.activation_bytes))
    images = f"{format_bytes(needed)} of memory for {count_of(chunk, 'image')} at a time"
    text = f"training needs about {images}; {format_bytes(free)} are available"
    if fits < 1:
        advice = "a smaller depth or width is needed"
    else:
        chunks = min(n for n in divisors(train.batch_size) if train.batch_size // n <= fits)
        advice = f"batch_size={fits} fits, or accumulate={-(-chunks // num_ranks)}"
    if needed > total:
        raise ValueError(f"{text}: {advice}")
    return f"{text}; if it fails: {advice}"


def state_bytes(recipe: Recipe, memory: TrainingMemory, num_ranks: int, *, in_chunks: bool) -> int:
    """Return the bytes on each device without activations.

    With FSDP each has a part of weights, gradients and moments. It gathers what is outside of blocks, a block
    in use and the next, copies the gradients of a block to send them, and has whole ones until the last of
    several chunks.
    """
    if recipe.train.parallel == "ddp" or num_ranks == 1:
        return memory.step_bytes(0)
    network = recipe.outline()
    weights, blocks = num_parameters(network), network.backbone.blocks
    block = max(map(num_parameters, blocks))
    gathered = 2 if recipe.train.gpu_precision == "bf16" else FP32
    used = gathered * (weights - num_parameters(nn.ModuleList(blocks)) + 2 * block)
    sent = (gathered + 2 * FP32) * block
    whole = FP32 * weights * in_chunks
    return memory.weight_bytes // num_ranks + used + sent + whole


def num_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a module; shared ones count once."""
    return sum(each.numel() for each in module.parameters())


def divisors(count: int) -> list[int]:
    """Return the divisors of a number, the smallest first."""
    small = [n for n in range(1, isqrt(count) + 1) if count % n == 0]
    return sorted({*small, *(count // n for n in small)})


def device_costs(
    flops: int | float, precision: Precision, *, mfu: float = MFU, price_per_hour: float | None = None
) -> Iterator[DeviceCost]:
    """Yield the cost on each known device: FLOPs / (data-sheet peak at this precision * mfu) seconds."""
    for name, peak in peak_flops_by_device(precision).items():
        hours = flops / (peak * mfu) / 3600
        price = None if price_per_hour is None else hours * price_per_hour
        yield DeviceCost(name, peak, hours, price)


def matmul_throughput(device: torch.device, precision: Precision, width: int, seconds: float = 0.2) -> float:
    """Measure the FLOP/s of [512 x D] @ [D x 4D] products on this device for about `seconds`."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    left = torch.zeros(512, width, dtype=dtype, device=device)
    right = torch.zeros(width, 4 * width, dtype=dtype, device=device)
    left @ right
    synchronize(device)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        left @ right
        synchronize(device)
        count += 1
    return count * 2 * 512 * width * 4 * width / (time.perf_counter() - start)


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


def _bytes_by_depth(recipe: Recipe) -> list[int]:
    """Return `_saved_bytes`, which are linear in the depth, from two and three blocks."""
    depth = recipe.model.depth
    if depth <= 3:
        return _saved_bytes(recipe)
    two, three = (_saved_bytes(recipe.updated(depth=n)) for n in (2, 3))
    return [a + (depth - 2) * (b - a) for a, b in zip(two, three, strict=True)]


def _saved_bytes(recipe: Recipe) -> list[int]:
    """Return the number of parameters, and the bytes saved for backward by batches of both sizes; with
    `recompute` those of both sizes again, without what is recomputed.
    """
    codec = recipe.model.codec.placeholder(recipe.grid)
    sides = (codec.grid.rows * codec.patch_size, codec.grid.cols * codec.patch_size)
    with FakeTensorMode(allow_non_fake_inputs=True):  # only masks and codes are computed
        network = recipe.assemble(codec)
    model, counts = PretrainModel(network, recipe.objective), [num_parameters(network)]
    for recompute in (False, True)[: 1 + recipe.train.recompute]:
        network.backbone.recompute = recompute
        for batch_size in (SMALL_BATCH, LARGE_BATCH):
            black = torch.zeros(batch_size, 3, *sides, dtype=torch.uint8)
            batch = model.make_batch(black, generator(0, "memory"))
            with autocast(black.device, recipe.train.gpu_precision):
                counts.append(activation_bytes(partial(model, batch), exclude=network.tensors().values()))
    return counts


def _is_small(recipe: Recipe, images: int, free: int) -> bool:
    """Bound memory in no time: ten times the activations of the recipes, attention maps, and logits."""
    model, grid, codec = recipe.model, recipe.grid, recipe.model.codec.placeholder(recipe.grid)
    positions, depth = grid.positions, model.depth
    logits = 16 * codec.num_codes * codec.vocab_size
    activations = positions * (512 * model.width * depth + 128 * positions * depth + logits)
    return images * activations + 512 * model.width**2 * (depth + 1) < SMALL * free
