"""Training throughput of a PatchFormer over visible patches only, next to the same network over all patches
with a mask token at masked ones.

Both have the same weights, images (uniform random pixels), masks and precision, and start at exactly ln 4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from speed import networks
from speed.benchmark import OWN, TINY, Benchmark, Measured, RecipeSize
from speed.numerics import NumericsError
from speed.timing import Stopwatch
from speed.training import checked_steps, own_steps, peak_memories
from torch import Tensor

from isopix.core.device import Precision
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.model.masking import MaskTokenMaskingSpec
from isopix.objectives.base import PretrainModel
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe

LOSS_TOLERANCE = 1e-3
ALL_PATCHES = "the same network over all patches"


@dataclass(frozen=True)
class PatchSize(RecipeSize):
    """A recipe that drops masked patches."""

    precision: Precision = "fp32"

    def label(self) -> str:
        return f"{super().label()}, {self.precision}"


def measure_visible_patches(size: PatchSize, watch: Stopwatch) -> Measured:
    """Compare training steps, each side at the better of eager and compiled, and their peak memory."""
    recipe = networks.find_recipe(size.recipe)
    images = networks.random_images(recipe, size.batch, watch.device)
    visible = untrained_model(recipe, watch.device)
    every = untrained_model(over_all_patches(recipe), watch.device)
    share_weights(visible, every)
    checked = require_same_task(visible, every, images)

    def works(model: PretrainModel) -> dict[str, Callable[[], Tensor]]:
        return own_steps(model, images, compiled=size.compiled, precision=size.precision)

    sides = {OWN: works(visible), ALL_PATCHES: works(every)}
    checked_sides = {
        side: checked_steps(steps, size.batch, math.log(4), LOSS_TOLERANCE, recipe.name)
        for side, steps in sides.items()
    }
    timed = watch.alternate(checked_sides)
    trained = [visible.network, every.network]
    memory = peak_memories(checked_sides, timed, watch.device, trained)
    return Measured(checked=checked, times=timed.times, errors=timed.errors, values=memory)


def over_all_patches(recipe: Recipe) -> Recipe:
    """Return the recipe with a mask token at masked patches, instead of without these."""
    assert isinstance(recipe.objective, Masked), f"{recipe.name} masks nothing"
    return replace(recipe, objective=replace(recipe.objective, corruption=MaskTokenMaskingSpec()))


def untrained_model(recipe: Recipe, device: torch.device) -> PretrainModel:
    """Return the network of a recipe before training: its head is zero."""
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid)).to(device)
    return PretrainModel(network, recipe.objective)


def share_weights(visible: PretrainModel, every: PretrainModel) -> None:
    """Give the network over all patches copies of the weights that both have."""
    own = every.network.tensors()
    copies = {name: each.clone() for name, each in visible.network.tensors().items() if name in own}
    every.network.load(own | copies)


def require_same_task(visible: PretrainModel, every: PretrainModel, images: Images) -> str:
    """Return what is equal. Raises NumericsError unless the weights that both have are equal, and unless both
    predict the same codes at the same patches.
    """
    ours, theirs = visible.network.tensors(), every.network.tensors()
    if any(not torch.equal(ours[name], theirs[name]) for name in ours.keys() & theirs.keys()):
        raise NumericsError("the networks over visible and over all patches have different weights")
    batch, other = (each.make_batch(images, generator(0, "bench")) for each in (visible, every))
    same = torch.equal(batch.targets, other.targets) and torch.equal(batch.loss_mask, other.loss_mask)
    if not same:
        raise NumericsError("the networks over visible and over all patches predict different codes")
    return "weights, targets and masks equal; first losses ln 4"


ABOUT = ("training step over visible patches", ALL_PATCHES, measure_visible_patches)
SIZES = {
    "cpu": PatchSize("patchformer.tiny", batch=32),
    "cuda": PatchSize("patchformer.base", batch=128, precision="bf16"),
    TINY: PatchSize("patchformer.tiny depth=1 width=16", batch=2, compiled=False),
}
PAPER = {"cpu": PatchSize("patchformer.base", batch=2, compiled=False)}  # that of GPUs is above
BENCHMARKS = (
    Benchmark("patchformer.visible-patches", *ABOUT, SIZES),
    Benchmark("patchformer.base", *ABOUT, PAPER),
)
