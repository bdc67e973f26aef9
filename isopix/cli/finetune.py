"""`isopix finetune`: fine-tune a run, or train a recipe from scratch, to classify labeled images."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import starts, training
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    Loggers,
    Plugins,
    RunSeed,
    SettingsFile,
    Source,
    follow_up_options,
    load_plugins,
)
from isopix.cli.launch import Devices, SlurmParameters, is_to_submit, launch_ranks, submit
from isopix.cli.run_display import (
    ResumeCommand,
    print_summary,
    unless_stopped,
    with_resume_hint,
)
from isopix.core.text import command_line

Refit = Annotated[
    bool,
    Parameter(help="Choose the number of steps on the validation split, then retrain on train + validation."),
]


def finetune(
    source: str,
    *settings: str,
    out: Path,
    data: Source = None,
    file: SettingsFile = None,
    limit: Limit = None,
    labels: str | None = None,
    subset: int | None = None,
    refit_on_validation: Refit = False,
    seed: RunSeed = None,
    plugin: Plugins = None,
    device: Device = "auto",
    devices: Devices = None,
    logger: Loggers = None,
    slurm: SlurmParameters = None,
    json: Json = False,
    resume_command: ResumeCommand = None,
) -> None:
    """Fine-tune a run to classify labeled images, or train a recipe from scratch.

    The weights with the best validation accuracy are kept and evaluated on the test set. Ctrl-C saves a
    checkpoint and prints the command that resumes the run.

    Example: isopix finetune runs/photos --data labeled/ --out runs/classes steps=500 lr=1e-4

    Parameters
    ----------
    source
        Run folder of a pre-trained network, or a recipe name to train from scratch.
    settings
        Settings to override, as name=value, such as steps=500, lr=1e-4, dropout=0.1 or patience=5.
    out
        Run folder to create; it must be new or empty.
    labels
        Number of labeled training images per class, or a fraction such as 10%.
    subset
        Index of the balanced random subset that --labels selects: 0, 1, ...
    """
    if is_to_submit(slurm):
        load_plugins(plugin)
        prepare = starts.finetune_start(
            source,
            data=data,
            overrides=settings,
            file=file,
            limit=limit,
            labels=labels,
            subset=subset,
            seed=seed,
        )
        check = partial(starts.check_job, prepare().recipe, out, logger or (), refit=refit_on_validation)
        submit(slurm, out, check, devices=devices, json=json)
        return
    launch_ranks(devices, device)
    load_plugins(plugin)
    options = follow_up_options(plugin=plugin, device=device, devices=devices, logger=logger, slurm=slurm)
    same = command_line(*sys.argv[1:])
    again = resume_command or (same if refit_on_validation else command_line("resume", out, *options))
    with with_resume_hint(out, again):
        run = unless_stopped(
            lambda: training.finetune(
                source,
                data=data,
                out=out,
                overrides=settings,
                file=file,
                limit=limit,
                labels=labels,
                subset=subset,
                refit_on_validation=refit_on_validation,
                seed=seed,
                device=device,
                loggers=logger or (),
            )
        )
    print_summary(run, again, options=follow_up_options(plugin=plugin), json=json)
