"""Correctness on a device: the losses of small trainings agree with those of the CPU, eager and compiled; the
gradients are finite at shapes where attention kernels have failed; greedy samples are the most likely codes.
"""

from dataclasses import dataclass

import torch
from speed import networks
from speed.benchmark import TINY, Benchmark, Measured, Size
from speed.numerics import NumericsError, require_equal
from speed.timing import Stopwatch

from isopix.core.random import generator
from isopix.generate.results import SamplingConfig
from isopix.generate.sample import sample_images
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe
from isopix.train.config import Adam, TrainConfig
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep

STEPS = 10
SAMPLES, EQUAL_CODES = 4, 0.99
LOSS_TOLERANCE = 2e-3
CPU = torch.device("cpu")
RECIPES = (
    "igpt.digits",
    "igpt.digits_bert",
    "isotropic.tiny-conv-pix2vec-3",
    "isotropic.tiny-mixer-fourier-3",
    "isotropic.tiny-transformer-4-continuous-3",
    "patchformer.tiny",
)
# cuDNN's attention gave gradients of nan where the number of positions modulo 128 is 64 (pytorch#196678), for
# rows of scores below -88; scaled weights of the queries and keys give such scores.
TRAP_SIDES = ((8, 8), (16, 20), (24, 24))
TRAP_HEADS = (32, 64, 128)  # channels of a head
TRAP_SCALE = 30.0


@dataclass(frozen=True)
class CorrectnessSize(Size):
    """The number of images, the recipes that are trained, the shapes of the traps, and whether to compile."""

    images: int = 16
    recipes: tuple[str, ...] = RECIPES
    sides: tuple[tuple[int, int], ...] = TRAP_SIDES
    heads: tuple[int, ...] = TRAP_HEADS
    compiled: bool = True

    def label(self) -> str:
        return f"{len(self.recipes)} recipes"


def measure_correctness(size: CorrectnessSize, watch: Stopwatch) -> Measured:
    checks = [require_equal_training(name, size, watch.device) for name in size.recipes]
    checks += [
        require_finite_gradients(trap_recipe(rows, cols, channels), size.images, watch.device)
        for rows, cols in size.sides
        for channels in size.heads
    ]
    checks.append(require_greedy_samples("igpt.digits", watch.device))
    return Measured(checked="; ".join(checks))


def require_equal_training(name: str, size: CorrectnessSize, device: torch.device) -> str:
    """Return how well the losses of ten steps in float32 agree on the CPU, on the device, and compiled there.

    Recipes that drop tokens are not compiled. Raises NumericsError if the losses do not agree.
    """
    recipe = networks.find_recipe(name)
    expected = training_losses(recipe, size.images, CPU, compiled=False)
    others = {} if device == CPU else {str(device): (device, False)}
    if size.compiled and not recipe.objective.corruption.drops_tokens:
        others["compiled"] = (device, True)
    for where, (place, compiled) in others.items():
        require_equal_losses(
            f"{name}, {where}", training_losses(recipe, size.images, place, compiled=compiled), expected
        )
    return f"{name}: {STEPS} losses equal on {', '.join(['cpu', *others])}"


def training_losses(recipe: Recipe, images: int, device: torch.device, *, compiled: bool) -> list[float]:
    """Return the losses of ten steps in float32. Raises NumericsError for one that is not finite."""
    torch.compiler.reset()
    network = networks.random_network(recipe, device)
    model = PretrainModel(network, recipe.objective)
    task = PretrainTask(model)
    step = TrainStep(task, TrainConfig(optimizer=Adam(lr=1e-3), precision="fp32", compile=compiled))
    batch = networks.random_images(recipe, images, device)
    losses = [
        step(model.make_batch(batch, generator(0, "bench", number)), step=number, lr_factor=1.0)
        for number in range(1, STEPS + 1)
    ]
    if failed := step.nonfinite_steps():
        raise NumericsError(f"{recipe.name} on {device}: the loss or its gradient is not finite at {failed}")
    return [float(each["loss_nats"]) for each in losses]


def require_equal_losses(what: str, found: list[float], expected: list[float]) -> None:
    pairs = zip(found, expected, strict=True)
    if not all(abs(one - other) <= LOSS_TOLERANCE * abs(other) for one, other in pairs):
        raise NumericsError(f"{what}: losses {found} instead of {expected}")


def trap_recipe(rows: int, cols: int, channels: int) -> Recipe:
    """Return a masked transformer of one head with this many channels, over a grid of this size."""
    sizes = f"width={channels} heads=1 data.rows={rows} data.cols={cols}"
    return networks.find_recipe(f"igpt.digits_bert depth=2 {sizes}")


def require_finite_gradients(recipe: Recipe, images: int, device: torch.device) -> str:
    """Return the shape for which the gradients of a step in bf16 with large attention scores are finite.

    Raises NumericsError if they are not.
    """
    network = networks.random_network(recipe, device)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if ".attention.qkv" in name:
                weight.mul_(TRAP_SCALE)
    model = PretrainModel(network, recipe.objective)
    step = TrainStep(PretrainTask(model), TrainConfig(precision="bf16", compile=False))
    batch = networks.random_images(recipe, images, device)
    step(model.make_batch(batch, generator(0, "bench")), step=1, lr_factor=0.0)
    shape = f"{recipe.grid.positions} positions, {recipe.model.width} channels a head"
    if step.nonfinite_steps():
        raise NumericsError(f"{shape}: the loss or its gradient is not finite")
    return f"{shape}: gradients finite"


@torch.no_grad()
def require_greedy_samples(name: str, device: torch.device) -> str:
    """Return how many greedy codes, sampled on the device step by step, are the most likely ones given those
    before, by one forward pass of the whole image on the CPU. Raises NumericsError if too few are.
    """
    recipe = networks.find_recipe(name)
    model = PretrainModel(networks.random_network(recipe, device).eval(), recipe.objective)
    images = sample_images(model, SAMPLES, sampling=SamplingConfig(top_k=1), batch_size=SAMPLES)
    network = networks.random_network(recipe, CPU).eval()
    likely = network.predict(network.inputs_of(images))
    what = f"{name}, greedy samples on {device} are the most likely codes"
    return require_equal(what, network.codec.encode(images), likely, EQUAL_CODES)


SMALLEST = CorrectnessSize(2, ("igpt.digits",), sides=TRAP_SIDES[:1], heads=(32,), compiled=False)
SIZES = {"cpu": CorrectnessSize(), "cuda": CorrectnessSize(), TINY: SMALLEST}
BENCHMARKS = (Benchmark("correctness", "correctness", "the CPU", measure_correctness, SIZES),)
