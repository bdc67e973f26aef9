"""What training commands share: the progress display, the resume hint, and the summary at the end."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import torch
from cyclopts import Parameter

from isopix.cli.console import say, show_json, warn
from isopix.cli.progress import TrainingLine
from isopix.core import device as devices
from isopix.core.command_line import command_line
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.runs.training import RunObserver, RunStatus
from isopix.storage.log import read_log
from isopix.train.trainer import Record

# The command that resumes an interrupted run, where it is not `isopix resume`; not an option.
ResumeCommand = Annotated[str | None, Parameter(parse=False)]

INTERRUPTED = 75  # EX_TEMPFAIL of sysexits.h: batch systems requeue the job


@contextmanager
def progress_display(
    recipe: Recipe, device: torch.device, *, tensorboard: bool, json: bool
) -> Iterator[RunObserver]:
    """Yield an observer that shows training progress, or with `json` only notes, on standard error.

    Raises ValueError for parts that cannot be combined.
    """
    flops, peak = recipe_cost(recipe).training_flops, devices.peak_flops(device, recipe.train.precision)
    if json:
        yield RunObserver(_note, tensorboard=tensorboard)
        return
    with TrainingLine(recipe.train.steps, flops=flops, peak=peak) as line:
        yield RunObserver(line.show, tensorboard=tensorboard)


def _note(record: Record) -> None:
    if record["kind"] == "note":
        warn(record["text"])


@contextmanager
def with_resume_hint(run: Path, resume_command: str) -> Iterator[None]:
    """Add the command that resumes the run to a KeyboardInterrupt, if a checkpoint has been saved."""
    try:
        yield
    except KeyboardInterrupt:
        saved = sorted(run.glob("**/checkpoints/step-*"))
        raise KeyboardInterrupt(
            f"interrupted; last checkpoint: {saved[-1]}; resume with: {resume_command}" if saved else ""
        ) from None


def _next_commands(recipe: Recipe, outcome: RunStatus) -> list[str]:
    """Return the commands that apply to a finished run."""
    generate = "sample" if recipe.objective.can_sample else "reconstruct"
    applicable = {
        "evaluate": outcome.can_evaluate,
        "probe": outcome.can_probe,
        generate: recipe.learns_codes,
        "report": True,
    }
    return [name for name, applies in applicable.items() if applies]


def print_summary(
    recipe: Recipe, outcome: RunStatus, resume_command: str, *, options: Sequence[object] = (), json: bool
) -> None:
    """Print the result of a run and the commands to continue with, which take `options`.

    Exits with code 75 if the run was asked to stop; `resume_command` resumes it.
    """
    path = outcome.run.path
    if json:
        records = [record for record in read_log(outcome.run.log) if record["kind"] == "evaluation"]
        loss = "loss_nats" if recipe.learns_codes else "class_nats"
        newest = {
            name: {record["split"]: record[name] for record in records if name in record}
            for name in (loss, "accuracy")
        }
        metrics = {name: values for name, values in newest.items() if values or name == loss}
        show_json({"run": str(path), "step": outcome.step, "finished": outcome.finished, **metrics})
    elif outcome.finished:
        say(f"finished: {path}")
        commands = (command_line(name, path, *options) for name in _next_commands(recipe, outcome))
        say(f"next: {' ; '.join(commands)}")
    else:
        say(f"stopped and saved at step {outcome.step}; resume with: {resume_command}")
    if not outcome.finished:
        raise SystemExit(INTERRUPTED)
