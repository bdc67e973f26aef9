"""Cost of a recipe, computed on a network without allocated weights."""

from math import isqrt

from torch._subclasses import FakeTensorMode

from isopix.analysis.cost import (
    ForwardFlops,
    ModelCost,
    TrainingMemory,
    decoded_positions,
    model_cost,
    training_memory,
)
from isopix.codecs.base import Codec
from isopix.core.types import Grid
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe

WARN_ABOVE = 0.8  # of the free memory
SMALL = 0.1


def recipe_cost(recipe: Recipe) -> ModelCost:
    """Return the number of parameters and the FLOPs per image."""
    network = recipe.outline()
    network.backbone.recompute = recipe.train.recompute
    return model_cost(network, _forward_flops(recipe, network))


def recipe_memory(recipe: Recipe) -> TrainingMemory:
    """Estimate the memory of training, without allocating it."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    with FakeTensorMode(allow_non_fake_inputs=True):
        network = recipe.assemble(codec)
    network.backbone.recompute = recipe.train.recompute
    model = PretrainModel(network, recipe.objective)
    outputs = _outputs_per_position(recipe, codec)
    return training_memory(model, recipe.train.gpu_precision, outputs_per_position=outputs)


def logits_gradient_bytes(recipe: Recipe) -> int:
    """Return the part of an image's activation memory that is the gradient of the head's outputs."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    return 4 * _outputs_per_position(recipe, codec) * decoded_positions(recipe.objective, codec)


def memory_by_depth(recipe: Recipe) -> TrainingMemory | None:
    """Return the memory of `recipe_memory`, which is linear in the depth, from networks of two and three
    blocks; None where it cannot be calculated.
    """
    depth = recipe.model.depth
    try:
        if depth <= 3:
            return recipe_memory(recipe)
        two, three = (recipe_memory(recipe.updated(depth=n)) for n in (2, 3))
    except RuntimeError:  # the sizes of tensors overflow
        return None
    return TrainingMemory(*(a + (depth - 2) * (b - a) for a, b in zip(two, three, strict=True)))


def check_memory(recipe: Recipe, *, total: int, free: int, num_ranks: int = 1) -> str:
    """Return a warning if training needs more than 80 % of the `free` bytes of a device; empty otherwise.

    Raises ValueError if it needs more than the device has in `total`; the message has the batch size, or the
    number of chunks, that fits. Small recipes are not estimated. Each of `num_ranks` devices has a part of
    the batch and, with FSDP, of the weights.
    """
    train = recipe.train
    chunk = train.batch_size // train.accumulate // num_ranks
    if _is_small(recipe, chunk, free):
        return ""
    memory = memory_by_depth(recipe)
    if memory is None:
        raise ValueError(f"a network of width {recipe.model.width} is too large for any memory")
    weights = memory.step_bytes(0)
    shard = weights // num_ranks if train.parallel == "fsdp" else weights
    needed = memory.step_bytes(chunk) - weights + shard
    if needed <= WARN_ABOVE * free:
        return ""
    usable = round(WARN_ABOVE * free)
    fits = num_ranks * (max(0, usable - shard) // max(1, memory.activation_bytes))
    text = (
        f"training needs about {_gib(needed)} of memory for {chunk:,} images at a time; {_gib(free)} are "
        "available"
    )
    if fits < 1:
        advice = "a smaller depth or width is needed"
    else:
        advice = (
            f"batch_size={fits} fits, or accumulate={-(-_num_chunks(train.batch_size, fits) // num_ranks)}"
        )
    if needed > total:
        raise ValueError(f"{text}: {advice}")
    return f"{text}; if it fails: {advice}"


def _num_chunks(batch_size: int, fits: int) -> int:
    """Return the smallest number of equal chunks of a batch of which one fits."""
    return min(n for n in divisors(batch_size) if batch_size // n <= fits)


def divisors(count: int) -> list[int]:
    """Return the divisors of a number, the smallest first."""
    small = [n for n in range(1, isqrt(count) + 1) if count % n == 0]
    return sorted({*small, *(count // n for n in small)})


def _outputs_per_position(recipe: Recipe, codec: Codec) -> int:
    return codec.num_codes * (codec.vocab_size if recipe.model.head.categorical else 1)


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def _is_small(recipe: Recipe, images: int, free: int) -> bool:
    """Return whether training needs far less than the free memory by a bound that takes no time: some ten
    times the activations of the recipes, attention maps, and logits.
    """
    model, grid, codec = recipe.model, recipe.grid, recipe.model.codec.placeholder(recipe.grid)
    positions, depth = grid.positions, model.depth
    logits = 16 * codec.num_codes * codec.vocab_size
    activations = positions * (512 * model.width * depth + 128 * positions * depth + logits)
    return images * activations + 512 * model.width**2 * (depth + 1) < SMALL * free


def _forward_flops(recipe: Recipe, network: Network) -> ForwardFlops:
    """The head runs at positions in the loss; with token dropping, stem and blocks at the visible ones."""
    codec, width, grid = network.codec, recipe.model.width, recipe.grid
    decoded = decoded_positions(recipe.objective, codec)
    visible = grid.positions - decoded if recipe.objective.corruption.drops_tokens else grid.positions
    tokens = visible + recipe.model.class_token
    return ForwardFlops(
        stem=visible * recipe.model.stem.flops_per_token(codec, width),
        block=recipe.model.block.flops(
            grid if tokens == grid.positions else Grid(1, tokens), width, recipe.objective.causal
        ),
        head=decoded * recipe.model.head.flops_per_token(codec, width),
        depth=recipe.model.depth,
    )
