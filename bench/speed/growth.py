"""How the time of a training step grows with batch size, depth, width and resolution; and its figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.ticker import LogLocator, StrMethodFormatter
from speed import networks
from speed.benchmark import TINY, Benchmark, Measured, Size
from speed.numerics import NumericsError
from speed.timing import Stopwatch, Work
from speed.training import own_steps

from isopix.objectives.base import PretrainModel
from isopix.plots import style

HEAD_SIZE = 64
AXES = {
    "batch": "Batch size",
    "depth": "Depth (blocks)",
    "width": "Width (channels)",
    "side": "Side (pixels)",
}


@dataclass(frozen=True)
class GrowthSize(Size):
    """A recipe, the numbers that all measurements share but for one, and the values of that number."""

    recipe: str
    base: dict[str, int]
    values: dict[str, tuple[int, ...]]

    def label(self) -> str:
        return f"{self.recipe}, around {', '.join(f'{k} {v}' for k, v in self.base.items())}"


def measure_growth(size: GrowthSize, watch: Stopwatch) -> Measured:
    """Time a step for each value, in the device's precision."""
    sides = {
        name: {str(value): training_step(size, {**size.base, name: value}, watch) for value in values}
        for name, values in size.values.items()
    }
    timed = watch.alternate(sides)
    return Measured(checked="all losses are finite", times=timed.times, errors=timed.errors)


def training_step(size: GrowthSize, numbers: dict[str, int], watch: Stopwatch) -> Work:
    side, width, batch = numbers["side"], numbers["width"], numbers["batch"]
    network = f"depth={numbers['depth']} width={width} heads={max(1, width // HEAD_SIZE)}"
    recipe = networks.find_recipe(f"{size.recipe} {network} data.rows={side} data.cols={side}")
    model = PretrainModel(networks.random_network(recipe, watch.device), recipe.objective)
    images = networks.random_images(recipe, batch, watch.device)
    steps = own_steps(model, images, precision=watch.precision, compiled=False)
    return Work(call=steps["eager"], items=batch, check=require_finite)


def require_finite(loss: object) -> None:
    assert isinstance(loss, torch.Tensor)
    if not torch.isfinite(loss):
        raise NumericsError(f"the loss is {float(loss)}")


@style.figure_style()
def plot_growth(record: Mapping[str, Any]) -> style.Figure:
    """Plot images per second by each number: medians with their range."""
    panels = record["alternatives"]
    figure = style.new_figure(2.5)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (name, times) in zip(axes, panels.items(), strict=True):
        sizes = list(map(int, times))
        rates = [1 / each["median"] for each in times.values()]
        below = [rate - 1 / each["max"] for rate, each in zip(rates, times.values(), strict=True)]
        above = [1 / each["min"] - rate for rate, each in zip(rates, times.values(), strict=True)]
        panel.errorbar(sizes, rates, (below, above), fmt="o-", color=style.COLORS[0])
        panel.set(xlabel=AXES[name], xscale="log", yscale="log")
        panel.set_xticks(sizes, list(map(str, sizes)))
        panel.minorticks_off()
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes[0].set_ylabel("Images per second")
    repeats = min(each["n"] for times in panels.values() for each in times.values())
    style.add_key(figure, f"median and range of {repeats} repeats")
    return figure


SMALL = {
    "batch": (2, 4, 8, 16, 32),
    "depth": (2, 4, 8, 12),
    "width": (64, 128, 256, 384),
    "side": (8, 16, 24, 32),
}
LARGE = {"batch": (8, 16, 32, 64), "depth": (6, 12, 24), "width": (256, 512, 1024), "side": (16, 24, 32, 48)}
SMALLEST = {"batch": (1, 2), "depth": (1, 2), "width": (16, 32), "side": (4, 8)}
SIZES = {
    "cpu": GrowthSize("igpt.tiny", {"batch": 8, "depth": 4, "width": 128, "side": 24}, SMALL),
    "cuda": GrowthSize("igpt.s", {"batch": 32, "depth": 12, "width": 512, "side": 32}, LARGE),
    TINY: GrowthSize("igpt.digits", {"batch": 2, "depth": 1, "width": 16, "side": 8}, SMALLEST),
}
BENCHMARKS = (Benchmark("growth", "training step by size", "none", measure_growth, SIZES),)
