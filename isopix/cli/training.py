"""What `pretrain` and `resume` share: who looks on while a run goes, and what is said at its end."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from isopix.cli.console import say, show_json
from isopix.cli.progress import TrainingLine
from isopix.core import device as devices
from isopix.recipes.cost import of_recipe
from isopix.recipes.recipe import Recipe
from isopix.runs.run import Outcome, Watch
from isopix.train.log import read

INTERRUPTED = 75  # what batch systems read as: run me again


@contextmanager
def watching(recipe: Recipe, device: torch.device, *, tensorboard: bool, json: bool) -> Iterator[Watch]:
    """The live line, unless only JSON is asked for."""
    flops, peak = of_recipe(recipe).training_flops, devices.peak_flops(device)
    if json:
        yield Watch(tensorboard=tensorboard)
        return
    with TrainingLine(recipe.steps, flops=flops, peak=peak) as line:
        yield Watch(line.show, tensorboard=tensorboard)


def conclude(recipe: Recipe, outcome: Outcome, *, json: bool) -> None:
    """Say what there is now, and what can be done with it; exits with 75 for a run that was asked to stop."""
    path = outcome.run.path
    if json:
        losses = [record for record in read(outcome.run.log) if record["kind"] == "evaluation"]
        newest = {record["split"]: record["loss_nats"] for record in losses}
        show_json({"run": str(path), "step": outcome.step, "finished": outcome.finished, "loss_nats": newest})
    elif outcome.finished:
        picture = "sample" if recipe.objective.causal else "reconstruct"
        say(f"done: {path}")
        say(f"next: isopix probe {path} ; isopix {picture} {path} ; isopix report {path}")
    else:
        say(f"stopped at step {outcome.step} and saved; go on with: isopix resume {path}")
    if not outcome.finished:
        raise SystemExit(INTERRUPTED)
