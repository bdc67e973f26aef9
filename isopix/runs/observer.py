"""What follows a run, and what state it leaves."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from isopix.core import ranks
from isopix.core.device import Precision, describe_devices, peak_flops
from isopix.core.progress import open_bar
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.storage.run_folder import RunFolder
from isopix.train.display import TrainingDisplay
from isopix.train.trainer import Record


class RunObserver(NamedTuple):
    """Follows a run: `record` is called with every log record, `stop` after every step, and `watch` every few
    steps and before a checkpoint, with the step and the losses of the steps since its last call.

    The metrics also go to the `loggers` of these names: tensorboard, wandb, trackio. `title` is the
    first line of the display; with None there is none.
    """

    title: str | None = ""
    record: Callable[[Record], None] = lambda record: None
    stop: Callable[[], bool] = lambda: False
    watch: Callable[[int, Sequence[float]], None] = lambda step, losses: None
    loggers: Sequence[str] = ()


class RunStatus(NamedTuple):
    """The state of a run after a training process, and which commands apply to it."""

    run: RunFolder
    step: int
    finished: bool
    can_probe: bool  # there are two classes or more, and validation images
    can_evaluate: bool  # it classifies, and there are test images


def open_display(
    recipe: Recipe, title: str | None, step: int, *, device: torch.device, precision: Precision
) -> TrainingDisplay | None:
    """Return the display of a training from a step, if progress is shown."""
    bar = None if title is None else open_bar()
    if bar is None:
        return None
    steps, peak = recipe.train.steps, peak_flops(device, precision)
    resumed = f"{recipe.name}, from step {step} of {steps}, {describe_devices(device)}"
    return TrainingDisplay(
        bar,
        title or resumed,
        steps,
        flops=recipe_cost(recipe).training_flops,
        peak=peak and peak * ranks.num_ranks(),
    )
