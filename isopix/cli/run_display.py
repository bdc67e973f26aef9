"""What `pretrain` and `resume` share: who looks on while a run goes, and what is said at its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
from cyclopts import Parameter

from isopix.cli.console import say, show_json, warn
from isopix.cli.progress import TrainingLine
from isopix.core import device as devices
from isopix.core.command_line import command
from isopix.recipes.cost import of_recipe
from isopix.recipes.recipe import Recipe
from isopix.runs.pretrain import Outcome, Watch
from isopix.storage.log import read
from isopix.train.trainer import Record

# The command that goes on with an interrupted run, where that is not `isopix resume`; no option.
Again = Annotated[str | None, Parameter(parse=False)]

INTERRUPTED = 75  # what batch systems read as: run me again


@contextmanager
def watching(recipe: Recipe, device: torch.device, *, tensorboard: bool, json: bool) -> Iterator[Watch]:
    """The live line; if only JSON is asked for, the notes alone, beside it. Raises ValueError for parts that
    do not go together.
    """
    flops, peak = of_recipe(recipe).training_flops, devices.peak_flops(device, recipe.train.precision)
    if json:
        yield Watch(_note, tensorboard=tensorboard)
        return
    with TrainingLine(recipe.train.steps, flops=flops, peak=peak) as line:
        yield Watch(line.show, tensorboard=tensorboard)


def _note(record: Record) -> None:
    if record["kind"] == "note":
        warn(record["text"])


@contextmanager
def going_on(run: Path, again: str) -> Iterator[None]:
    """A Ctrl-C that cuts the work short also says how to go on, once there is a checkpoint to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        saved = sorted(run.glob("**/checkpoints/step-*"))
        raise KeyboardInterrupt(
            f"interrupted; the last checkpoint is {saved[-1]}; go on with: {again}" if saved else ""
        ) from None


def _verbs(recipe: Recipe, outcome: Outcome) -> list[str]:
    """What makes sense of a finished run."""
    picture = "sample" if recipe.objective.can_sample else "reconstruct"
    offered = {
        "evaluate": outcome.judgeable,
        "probe": outcome.probeable,
        picture: recipe.learns_codes,
        "report": True,
    }
    return [verb for verb, sensible in offered.items() if sensible]


def conclude(recipe: Recipe, outcome: Outcome, again: str, *, json: bool) -> None:
    """Say what there is now, and what can be done with it; exits with 75 for a run that was asked to stop,
    which `again` goes on with.
    """
    path = outcome.run.path
    if json:
        records = [record for record in read(outcome.run.log) if record["kind"] == "evaluation"]
        loss = "loss_nats" if recipe.learns_codes else "class_nats"
        newest = {
            name: {record["split"]: record[name] for record in records if name in record}
            for name in (loss, "accuracy")
        }
        told = {name: values for name, values in newest.items() if values or name == loss}
        show_json({"run": str(path), "step": outcome.step, "finished": outcome.finished, **told})
    elif outcome.finished:
        say(f"done: {path}")
        say(f"next: {' ; '.join(command(verb, path) for verb in _verbs(recipe, outcome))}")
    else:
        say(f"stopped at step {outcome.step} and saved; go on with: {again}")
    if not outcome.finished:
        raise SystemExit(INTERRUPTED)
