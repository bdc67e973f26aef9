"""How the time of a training step grows with batch, depth, width and resolution, next to a model of it.

The model adds the times of what a step consists of: matrix products at the rate measured for this width,
attention as PyTorch's kernel takes it for this shape, and element-wise work in proportion to the activations.
The seconds per activation, and those of a step without any, are fitted to all measurements in relative error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from speed import networks
from speed.benchmark import TINY, Benchmark, Measured, Size
from speed.numerics import NumericsError
from speed.timing import DTYPES, Stopwatch, Work
from speed.training import own_steps
from torch.nn import functional as F

from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe

HEAD_SIZE = 64
FITTED = ("seconds per step", "seconds per activation")
BLOCK_ACTIVATIONS = 16  # for each channel: two norms, queries, keys, values, attended, residuals, and the MLP


class NetworkSize(NamedTuple):
    """What is varied: a batch of images of `side` x `side`, through `depth` blocks of this width."""

    batch: int
    depth: int
    width: int
    side: int


@dataclass(frozen=True)
class GrowthSize(Size):
    """A recipe, the network that all measurements share but for one number, and the values of that number."""

    recipe: str
    base: NetworkSize
    values: dict[str, tuple[int, ...]]

    def label(self) -> str:
        return f"{self.recipe}, around {', '.join(f'{k} {v}' for k, v in self.base._asdict().items())}"

    def networks(self) -> dict[tuple[str, int], NetworkSize]:
        return {
            (name, value): self.base._replace(**{name: value})
            for name, values in self.values.items()
            for value in values
        }

    def recipe_of(self, network: NetworkSize) -> Recipe:
        sizes = f"depth={network.depth} width={network.width} heads={_heads(network.width)}"
        return networks.find_recipe(
            f"{self.recipe} {sizes} data.rows={network.side} data.cols={network.side}"
        )


def measure_growth(size: GrowthSize, watch: Stopwatch) -> Measured:
    """Time a step for each value, in the device's precision; return the model's seconds per image, too."""
    cases = {key: (network, size.recipe_of(network)) for key, network in size.networks().items()}
    sides: dict[str, dict[str, Work]] = {name: {} for name in size.values}
    for (name, value), (network, recipe) in cases.items():
        step = training_step(recipe, network.batch, watch)
        sides[name][str(value)] = Work(call=step, items=network.batch, check=require_finite)
    timed = watch.alternate(sides)
    measured = {
        (name, value): timed.times[name][str(value)].median
        for name, value in cases
        if str(value) in timed.times[name]
    }
    known = known_seconds(cases, size.base.batch, watch)
    model, constants = fit_model({key: (*cases[key], known[key], time) for key, time in measured.items()})
    deviation = max(abs(model[key] / measured[key] - 1) for key in measured)
    values: dict[str, float | int | None] = {
        f"model, {name} {value}": seconds for (name, value), seconds in model.items()
    }
    values |= dict(zip(FITTED, constants, strict=True))
    return Measured(
        checked=f"the model is within {100 * deviation:.0f}% of all {len(measured)} measurements",
        times=timed.times,
        errors=timed.errors,
        values=values | {"largest deviation of the model": deviation},
    )


def training_step(recipe: Recipe, batch: int, watch: Stopwatch) -> Callable[[], torch.Tensor]:
    model = PretrainModel(networks.random_network(recipe, watch.device), recipe.objective)
    images = networks.random_images(recipe, batch, watch.device)
    return own_steps(model, images, precision=watch.precision, compiled=False)["eager"]


def require_finite(loss: object) -> None:
    assert isinstance(loss, torch.Tensor)
    if not torch.isfinite(loss):
        raise NumericsError(f"the loss is {float(loss)}")


def known_seconds(
    cases: Mapping[tuple[str, int], tuple[NetworkSize, Recipe]], batch: int, watch: Stopwatch
) -> dict[tuple[str, int], float]:
    """Return the seconds an image of the matrix products and the attention of each case, measured alone."""
    sizes = [network for network, _ in cases.values()]
    rates = {width: watch.matmul_rate(width) for width in {each.width for each in sizes}}
    shapes = {(each.side**2, each.width) for each in sizes}
    attention = {shape: attention_seconds(*shape, batch, watch) for shape in shapes}
    seconds = {}
    for key, (network, recipe) in cases.items():
        positions, width = network.side**2, network.width
        attention_flops = 6 * network.depth * positions * (positions + 1) * width
        products = recipe_cost(recipe).training_flops - attention_flops
        seconds[key] = products / rates[width] + network.depth * attention[positions, width]
    return seconds


def attention_seconds(positions: int, width: int, batch: int, watch: Stopwatch) -> float:
    """Return the seconds an image of causal attention of one block, forward and backward."""
    shape = (batch, _heads(width), positions, width // _heads(width))
    q, k, v = (
        torch.randn(shape, generator=generator(0, "bench"))
        .to(watch.device, DTYPES[watch.precision])
        .requires_grad_()
        for _ in range(3)
    )
    ones = torch.ones_like(q)

    def attend() -> None:
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(attended, (q, k, v), ones)

    return watch.alternate({"attention": {"": Work(call=attend, items=batch)}}).times["attention"][""].median


Case = tuple[NetworkSize, Recipe, float, float]  # with the known and the measured seconds an image


def fit_model(cases: dict[tuple[str, int], Case]) -> tuple[dict[tuple[str, int], float], list[float]]:
    """Return the seconds an image of the model for each case, and its constants."""
    rows = np.array([_features(network, recipe) for network, recipe, _, _ in cases.values()])
    known, measured = (np.array([case[place] for case in cases.values()]) for place in (2, 3))
    scale = 1 / measured
    constants = np.linalg.lstsq(rows * scale[:, None], (measured - known) * scale, rcond=None)[0]
    seconds = known + rows @ constants
    return dict(zip(cases, seconds.tolist(), strict=True)), constants.tolist()


def _features(network: NetworkSize, recipe: Recipe) -> tuple[float, float]:
    """The share of a step, and the activations of all blocks and of the head, of an image."""
    vocab_size = recipe.model.codec.placeholder(recipe.grid).vocab_size
    in_blocks = BLOCK_ACTIVATIONS * network.width * network.depth
    return 1 / network.batch, float(network.side**2 * (in_blocks + vocab_size))


def _heads(width: int) -> int:
    return max(1, width // HEAD_SIZE)


SMALL = {
    "batch": (2, 4, 8, 16, 32),
    "depth": (2, 4, 8, 12),
    "width": (64, 128, 256, 384),
    "side": (8, 16, 24, 32),
}
LARGE = {"batch": (8, 16, 32, 64), "depth": (6, 12, 24), "width": (256, 512, 1024), "side": (16, 24, 32, 48)}
SMALLEST = {"batch": (1, 2), "depth": (1, 2), "width": (16, 32), "side": (4, 8)}
SIZES = {
    "cpu": GrowthSize("igpt.tiny", NetworkSize(8, 4, 128, 24), SMALL),
    "cuda": GrowthSize("igpt.s", NetworkSize(32, 12, 512, 32), LARGE),
    TINY: GrowthSize("igpt.digits", NetworkSize(2, 1, 16, 8), SMALLEST),
}
BENCHMARKS = (Benchmark("growth", "training step by size", "a model of its time", measure_growth, SIZES),)
