"""`isopix pretrain` and `isopix resume`: train a run."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from isopix.core.text import command_line
from isopix.core.verb import verb
from isopix.runs.results import TrainingResult
from isopix.verbs.options import (
    DeviceLike,
    Limit,
    Logger,
    Out,
    PaletteFile,
    PathLike,
    RecipeLike,
    RunFolderLike,
    RunSeed,
    Settings,
    SettingsFile,
    TrainingData,
)

Trained = Annotated[
    RecipeLike | None, "Name from `isopix recipe list`; with --from, the default is that of the run."
]
Weights = Annotated[
    PathLike | None,
    Parameter(name="--from"),
    "Run folder, checkpoint folder or model of `isopix models` to start from: its weights and "
    "codec, with a new optimizer.",
]
ProbeEvery = Annotated[
    int | None, "Interval in steps of a linear probe on a few labeled images; training is not affected."
]


@verb(parallel=True, slurm=True)
def pretrain(
    recipe: Trained = None,
    *settings: Settings,
    out: Out,
    weights: Weights = None,
    data: TrainingData = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: RunSeed = None,
    probe_every: ProbeEvery = None,
    logger: Logger = (),
    device: DeviceLike = "auto",
) -> TrainingResult:
    """Pre-train a recipe on images; creates a run folder.

    Ctrl-C saves a checkpoint and prints the command that resumes the run.

    Example: isopix pretrain igpt.tiny --data photos/ --out runs/photos steps=300 depth=6

    Example: isopix pretrain --from runs/photos --out runs/longer steps=1000
    """
    from isopix.runs.resume import train_in_processes
    from isopix.runs.start import prepare_pretrain

    if isinstance(recipe, str) and "=" in recipe:
        settings, recipe = (recipe, *settings), None
    options = {**run_options(data, limit, seed, palette), "probe_every": probe_every}
    start = prepare_pretrain(recipe, settings, weights=weights, file=file, options=options)
    return trained(lambda: train_in_processes(start, out, device=device, loggers=logger), out, device, logger)


@verb(parallel=True, slurm=True)
def resume(run: RunFolderLike, *, logger: Logger = (), device: DeviceLike = "auto") -> TrainingResult:
    """Resume an interrupted run from its last checkpoint.

    On a CPU the weights are those of an uninterrupted run, bit for bit; other differences are logged.

    Example: isopix resume runs/photos
    """
    from isopix.pretrained.run import run_folder
    from isopix.runs.resume import resume_in_processes

    out = run_folder(run).path
    return trained(lambda: resume_in_processes(out, device=device, loggers=logger), out, device, logger)


def run_options(
    data: TrainingData, limit: Limit, seed: RunSeed, palette: PaletteFile = None
) -> dict[str, Any]:
    """Return the settings that the arguments of training verbs override, by path."""
    return {
        "data.source": None if data is None else os.fspath(data),
        "data.limit": limit,
        "train.seed": seed,
        "codec.palette_file": None if palette is None else os.fspath(palette),
    }


def trained(
    train: "Callable[[], RunStatus]", out: Path, device: DeviceLike, logger: Logger, *, again: str = ""
) -> TrainingResult:
    """Train, and return the result, or raise Interrupted with it and the command that trains on."""
    from isopix.core import ranks
    from isopix.core.registry import plugins
    from isopix.core.signals import Interrupted, with_resume_hint
    from isopix.core.slurm import job_options
    from isopix.pretrained.run import training_result

    own: list[object] = [word for each in plugins() for word in ("--plugin", each.path)]
    words = [*own, *([] if device == "auto" else ["--device", device])]
    job = job_options()
    words += ["--devices", ranks.num_ranks()] if ranks.num_ranks() > 1 and not job else []
    words += [word for name in logger for word in ("--logger", name)]
    words += job
    again = again or command_line("resume", out, *words)
    with with_resume_hint(out, again):
        status = train()
    result = training_result(status, device, again, own)
    if not status.finished:
        raise Interrupted(f"stopped at step {status.step} and saved: {out}", result)
    return result


def same_command() -> str:
    """Return this command, as it was typed."""
    return command_line(*sys.argv[1:])


if TYPE_CHECKING:
    from isopix.runs.state import RunStatus
