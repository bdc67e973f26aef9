"""Shared by training commands: the progress display, the resume hint, and the summary at the end."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from isopix.cli.console import say, show_json
from isopix.core.measurement import Measurement
from isopix.core.signals import STOPPED, Interrupted
from isopix.core.text import command_line, format_loss
from isopix.pretrained.run import Run
from isopix.recipes.recipe import Recipe
from isopix.runs.observer import RunStatus

T = TypeVar("T")

# The command that resumes an interrupted run, where it is not `isopix resume`; not an option.
ResumeCommand = Annotated[str | None, Parameter(parse=False)]


def unless_stopped(train: Callable[[], T]) -> T:
    """Return the result of `train`, or its partial result if it was asked to stop and saved first."""
    try:
        return train()
    except Interrupted as stopped:
        result: T = stopped.result
        return result


@contextmanager
def with_resume_hint(run: Path, resume_command: str) -> Iterator[None]:
    """Add the command that resumes the run to a KeyboardInterrupt, if a checkpoint has been saved."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        saved = sorted(run.glob("**/checkpoints/step-*"))
        if saved:
            stopped.args = (f"interrupted; last checkpoint: {saved[-1]}; resume with: {resume_command}",)
        raise


def _next_commands(recipe: Recipe, status: RunStatus) -> list[str]:
    """Return the commands that apply to a finished run."""
    generate = "sample" if recipe.objective.can_sample else "reconstruct"
    applicable = {
        "evaluate": status.can_evaluate,
        "probe": status.can_probe,
        generate: recipe.predicts_codes,
        "report": True,
    }
    return [name for name, applies in applicable.items() if applies]


def print_summary(run: Run, resume_command: str, *, options: Sequence[object] = (), json: bool) -> None:
    """Print the result of a run and the commands to continue with, which take `options`.

    Exits with code 75 if the run was asked to stop; `resume_command` resumes it.
    """
    status = run.status
    assert status is not None, "it was trained"
    if json:
        state = {"run": str(run.folder), "step": status.step, "finished": status.finished}
        show_json({**state, **_final_metrics(run), "evaluated": _evaluated(run)})
    elif status.finished:
        say(f"finished: {run.folder}")
        for compared in filter(None, (_compared_loss(run), _compared_accuracy(run))):
            say(compared)
        commands = (command_line(name, run.folder, *options) for name in _next_commands(run.recipe, status))
        say(f"next: {' ; '.join(commands)}")
    else:
        say(f"stopped and saved at step {status.step}; resume with: {resume_command}")
    if not status.finished:
        raise SystemExit(STOPPED)


def _evaluated(run: Run) -> dict[str, dict[str, Any]]:
    """Return the step, the images and the measurement record of the newest evaluation of each split."""
    records = [record for record in run.metrics.history if record["kind"] == "evaluation"]
    names = ("step", "images", "available_images", "measurement")
    return {each["split"]: {name: each[name] for name in names if name in each} for each in records}


def _compared_loss(run: Run) -> str:
    """Return the test loss of codes with the best learning-free baseline and a uniform prediction."""
    recipe, metrics = run.recipe, run.metrics
    if not recipe.predicts_codes or "loss_nats" not in metrics.test:
        return ""
    others = []
    if baselines := metrics.baselines.get("test"):
        best = min(baselines, key=lambda name: baselines[name])
        others.append(f"best learning-free baseline: {best} {baselines[best]:.4f}")
    if recipe.model.head.categorical:
        values = recipe.model.codec.placeholder(recipe.grid).vocab_size
        others.append(f"uniform prediction: {math.log(values):.4f}")
    return "; ".join([f"test loss {format_loss(metrics.test['loss_nats'])} nats", *others])


def _compared_accuracy(run: Run) -> str:
    """Return the test accuracy with its images and that of the majority class; empty without one."""
    tested = [each for each in run.metrics.history if each.get("split") == "test" and "accuracy" in each]
    if not tested or "measurement" not in tested[-1]:
        return ""
    measurement = Measurement.from_dict(tested[-1]["measurement"])
    others = [f"{name} {accuracy:.1%}" for name, accuracy in measurement.baselines.items()]
    return "; ".join([f"test accuracy {tested[-1]['accuracy']:.1%} on {measurement.count}", *others])


def _final_metrics(run: Run) -> dict[str, Mapping[str, Any]]:
    """Return the newest loss and accuracy of each split, and the losses of learning-free baselines."""
    records = [record for record in run.metrics.history if record["kind"] == "evaluation"]
    loss = "loss_nats" if run.recipe.predicts_codes else "class_nats"
    newest = {
        name: {record["split"]: record[name] for record in records if name in record}
        for name in (loss, "accuracy")
    }
    baselines = {"baselines": run.metrics.baselines} if run.metrics.baselines else {}
    return {name: values for name, values in newest.items() if values or name == loss} | baselines
