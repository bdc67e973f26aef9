"""`isopix pretrain`, `resume` and `finetune`: train a run."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from isopix.core.choices import OfPaper
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

if TYPE_CHECKING:
    from isopix.runs.resume import Select
    from isopix.runs.start import TrainingStart
    from isopix.runs.state import RunStatus

Trained = Annotated[
    RecipeLike | None, "Name from `isopix list recipes`. Default with --from: the recipe of these weights."
]
Weights = Annotated[
    PathLike | None,
    Parameter(name="--from"),
    "Run folder, checkpoint folder or model from `isopix list models` whose weights and codec training "
    "starts from, with a new optimizer.",
]
MovedData = Annotated[PathLike | None, "New path of the run's images, if they were moved."]
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

    Ctrl-C saves a checkpoint; the same command resumes the run. lr=search first tries the learning rates
    0.01, 0.003, 0.001, ... until the validation loss rises, and uses the best (lr=search:0.01..0.00001).

    Example: isopix pretrain igpt.tiny --data photos/ --out runs/photos steps=300 depth=6

    Example: isopix pretrain --from runs/photos --out runs/longer steps=1000
    """
    from isopix.runs.series import lr_selection
    from isopix.runs.start import prepare_pretrain

    if isinstance(recipe, str) and "=" in recipe:
        settings, recipe = (recipe, *settings), None
    options = {**run_options(data, limit, seed, palette), "probe_every": probe_every}
    start = prepare_pretrain(recipe, settings, weights=weights, file=file, options=options)
    return start_training(start, lr_selection(start), out, device, logger)


@verb(parallel=True, slurm=True)
def resume(
    run: RunFolderLike, *, data: MovedData = None, logger: Logger = (), device: DeviceLike = "auto"
) -> TrainingResult:
    """Resume an interrupted run from its last checkpoint.

    On a CPU, the weights are bit-identical to an uninterrupted run's; differing environments are logged.

    Example: isopix resume runs/photos
    """
    from isopix.pretrained.run import run_folder
    from isopix.runs.resume import resume_in_processes

    out = run_folder(run).path
    return trained(
        lambda: resume_in_processes(out, device=device, loggers=logger, source=data), out, device, logger
    )


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


def start_training(
    start: "TrainingStart", select: "Select | None", out: Path, device: DeviceLike, logger: Logger
) -> TrainingResult:
    """Train in a new folder, or resume there, what may be selected first."""
    from isopix.runs.resume import train_in_processes

    if start.provenance.get("pretrained", {}).get("run") == str(out.resolve()):
        raise ValueError("out is the source run; choose another folder")
    again = same_command() if select else ""
    train = partial(train_in_processes, start, out, device=device, loggers=logger, select=select)
    return trained(train, out, device, logger, again=again)


def trained(
    train: "Callable[[], RunStatus]", out: Path, device: DeviceLike, logger: Logger, *, again: str = ""
) -> TrainingResult:
    """Train, and return the result, or raise Interrupted with it and the command that trains on."""
    from isopix.core import ranks
    from isopix.core.signals import Interrupted, with_resume_hint
    from isopix.core.slurm import job_options
    from isopix.pretrained.run import training_result

    words: list[object] = [] if device == "auto" else ["--device", device]
    job = job_options()
    words += ["--devices", ranks.num_ranks()] if ranks.num_ranks() > 1 and not job else []
    words += [word for name in logger for word in ("--logger", name)]
    words += job
    again = again or command_line("resume", out, *words)
    with with_resume_hint(out, again):
        status = train()
    result = training_result(status, device, again)
    if not status.finished:
        raise Interrupted(f"stopped at step {status.step} and saved: {out}", result)
    return result


def same_command() -> str:
    """Return this command, as it was typed."""
    return command_line(*sys.argv[1:])


Tuned = Annotated[PathLike, "Run folder of a pre-trained network, a trained model, or a recipe."]
Labels = Annotated[
    int | str | None, "Number of labeled training images per class, or a fraction such as 10%."
]
Subset = Annotated[
    OfPaper[int | None], "Index of the balanced random subset that --labels selects: 0, 1, ..."
]
FromScratch = Annotated[bool, "Train the recipe (or the run's recipe) from scratch."]
Refit = Annotated[
    OfPaper[bool], "Choose the number of steps on the validation split, then retrain on train + validation."
]


@verb(parallel=True, slurm=True)
def finetune(
    source: Tuned,
    *settings: Settings,
    out: Out,
    data: TrainingData = None,
    file: SettingsFile = None,
    limit: Limit = None,
    labels: Labels = None,
    subset: Subset = None,
    from_scratch: FromScratch = False,
    refit_on_validation: Refit = False,
    seed: RunSeed = None,
    logger: Logger = (),
    device: DeviceLike = "auto",
) -> TrainingResult:
    """Fine-tune a run or a trained model to classify labeled images, or train a recipe from scratch.

    The weights with the best validation accuracy are kept and evaluated on the test set. Ctrl-C saves a
    checkpoint; the same command resumes the run. With lr=search, the learning rate is first chosen
    by validation accuracy.

    Example: isopix finetune runs/photos --data labeled/ --out runs/classes steps=500 lr=1e-4
    """
    from isopix.data.splits import count_or_fraction
    from isopix.runs.resume import check_selects_step, select_step
    from isopix.runs.series import lr_selection
    from isopix.runs.start import prepare_finetune

    if labels is not None:
        count_or_fraction(labels, "labels")  # raises ValueError
    options = {**run_options(data, limit, seed), "data.labels_per_class": labels, "data.subset": subset}
    start = prepare_finetune(
        os.fspath(source), settings, file=file, options=options, from_scratch=from_scratch
    )
    select = lr_selection(start)
    if select and refit_on_validation:
        raise ValueError("lr=search and refit_on_validation both select on validation; give one of the two")
    if refit_on_validation:
        check_selects_step(start.recipe)
        select = select_step
    return start_training(start, select, out, device, logger)
