"""Training throughput of the networks of the inductive-bias study, next to the same in plain PyTorch.

Both have the same weights, images (uniform random pixels), masks and precision. The learning rate is zero, so
that every step has the same loss, which is checked.
"""

from collections.abc import Callable

import torch
from speed import networks, plain_pytorch
from speed.benchmark import OWN, TINY, Benchmark, Measured, RecipeSize
from speed.numerics import TOLERANCES, NumericsError, require_close
from speed.timing import Stopwatch
from speed.training import alternatives, checked_steps, matmul_bounds, own_steps
from torch import Tensor

from isopix.core.device import Precision, autocast
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.recipes.cost import recipe_cost
from isopix.recipes.isotropic import BLOCKS

LOGIT_TOLERANCE = 1e-3
MASKED = 0.15  # of the pixels
BATCHES = {"cpu": 4, "cuda": 128}
CPU_ONLY = ("transformer-4",)  # as its attention is that of one head but for the shape


def measure_masked_training(size: RecipeSize, watch: Stopwatch) -> Measured:
    """Compare steps in the device's precision, each side at the better of eager and compiled."""
    recipe = networks.find_recipe(size.recipe)
    network = networks.random_network(recipe, watch.device)
    model, plain = PretrainModel(network, recipe.objective), plain_pytorch.plain_network(network, recipe)
    images = networks.random_images(recipe, size.batch, watch.device)
    batch = model.make_batch(images, generator(0, "bench")).to(watch.device)
    checked = require_equal_networks(network, plain, images, batch)
    with torch.no_grad():
        expected = float(model.eval_loss(batch))

    sides = {
        OWN: own_steps(model, images, precision=watch.precision, compiled=size.compiled),
        f"plain PyTorch, {watch.precision}": plain_steps(
            plain, images, precision=watch.precision, compiled=size.compiled
        ),
    }
    timed = watch.alternate(
        {
            side: checked_steps(steps, size.batch, expected, TOLERANCES[watch.precision], recipe.name)
            for side, steps in sides.items()
        }
    )
    bounds = matmul_bounds(recipe_cost(recipe).training_flops, recipe.model.width, watch)
    return Measured(checked=checked, times=timed.times | bounds, errors=timed.errors)


@torch.no_grad()
def require_equal_networks(
    network: Network, plain: plain_pytorch.Plain, images: Images, batch: TrainingBatch
) -> str:
    """Return how well the logits of both agree in float32, with masks that are those of the plain network.

    Raises NumericsError if they do not.
    """
    mask = draw_mask(images)
    if batch.mask is None or not torch.equal(batch.mask, mask):
        raise NumericsError("the two networks have different masks")
    ours = network(batch.inputs, batch.mask)
    levels = images.flatten(2).transpose(1, 2).long()
    return require_close("logits", plain.logits(levels, mask), ours.flatten(2), LOGIT_TOLERANCE)


def draw_mask(images: Images) -> Tensor:
    """Return the mask [B N 1] of uniform random numbers, as the plain network is trained with."""
    uniform = torch.rand(len(images), images[0, 0].numel(), 1, generator=generator(0, "bench"))
    return (uniform < MASKED).to(images.device)


def plain_steps(
    plain: plain_pytorch.Plain, images: Images, *, precision: Precision, compiled: bool
) -> dict[str, Callable[[], Tensor]]:
    fused = images.device.type in ("cpu", "cuda")

    def step_of(forward: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor]:
        optimizer = torch.optim.Adam(plain.parameters(), lr=0.0, eps=1e-7, fused=fused)

        def step() -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with autocast(images.device, precision):
                loss = forward(images, draw_mask(images))
            torch.autograd.backward(loss)
            optimizer.step()
            return loss.detach()

        return step

    return {
        name: step_of(torch.compile(plain) if is_compiled else plain)
        for name, is_compiled in alternatives(compiled).items()
    }


def _benchmark(block: str) -> Benchmark[RecipeSize]:
    sizes = {
        device: RecipeSize(f"isotropic.{block}-pix2vec-6", batch)
        for device, batch in BATCHES.items()
        if device == "cpu" or block not in CPU_ONLY
    }
    sizes[TINY] = RecipeSize(f"isotropic.tiny-{block}-pix2vec-1", batch=2, compiled=False)
    return Benchmark(
        f"masked.{block}", "masked training step", "plain PyTorch", measure_masked_training, sizes
    )


BENCHMARKS = tuple(map(_benchmark, BLOCKS))
