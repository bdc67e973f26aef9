"""`isopix finetune`: fine-tune a run, or train a recipe from scratch, to classify labeled images."""

import os
from typing import Annotated

from isopix.core.verb import verb
from isopix.runs.results import TrainingResult
from isopix.verbs.options import (
    DeviceLike,
    Limit,
    Logger,
    Out,
    PathLike,
    RunSeed,
    Settings,
    SettingsFile,
    TrainingData,
)
from isopix.verbs.pretrain import run_options, same_command, trained

Source = Annotated[PathLike, "Run folder of a pre-trained network, or a recipe name to train from scratch."]
Labels = Annotated[
    int | str | None, "Number of labeled training images per class, or a fraction such as 10%."
]
Subset = Annotated[int | None, "Index of the balanced random subset that --labels selects: 0, 1, ..."]
Refit = Annotated[
    bool,
    "Choose the number of steps on the validation split, then retrain on train + validation.",
]


@verb(parallel=True, slurm=True)
def finetune(
    source: Source,
    *settings: Settings,
    out: Out,
    data: TrainingData = None,
    file: SettingsFile = None,
    limit: Limit = None,
    labels: Labels = None,
    subset: Subset = None,
    refit_on_validation: Refit = False,
    seed: RunSeed = None,
    logger: Logger = (),
    device: DeviceLike = "auto",
) -> TrainingResult:
    """Fine-tune a run to classify labeled images, or train a recipe from scratch.

    The weights with the best validation accuracy are kept and evaluated on the test set. Ctrl-C saves a
    checkpoint and prints the command that resumes the run.

    Example: isopix finetune runs/photos --data labeled/ --out runs/classes steps=500 lr=1e-4
    """
    from isopix.runs.resume import train_in_processes
    from isopix.runs.start import prepare_finetune

    options = {**run_options(data, limit, seed), "data.labels_per_class": labels, "data.subset": subset}
    start = prepare_finetune(os.fspath(source), settings, file=file, options=options)
    return trained(
        lambda: train_in_processes(start, out, device=device, loggers=logger, refit=refit_on_validation),
        out,
        device,
        logger,
        again=same_command() if refit_on_validation else "",
    )
