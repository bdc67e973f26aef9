"""`isopix finetune`: fine-tune a run, or train a recipe from scratch, to classify labeled images."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    Plugins,
    RunSeed,
    SettingsFile,
    Source,
    TensorBoard,
    load_plugins,
    overrides,
    plugin_options,
    say,
)
from isopix.cli.run_display import ResumeCommand, print_summary, progress_display, with_resume_hint
from isopix.core import device as devices
from isopix.core.command_line import command_line
from isopix.runs.finetune import prepare_finetune
from isopix.runs.pretrain import pretrain
from isopix.runs.refit import finetune_and_refit

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
    tensorboard: TensorBoard = False,
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
    load_plugins(plugin)
    shared = overrides(data=data, limit=limit, seed=seed)
    options = {**shared, "data.labels_per_class": labels, "data.subset": subset}
    prepare = partial(prepare_finetune, source, file=file, options=options, assignments=settings)
    (recipe, initial), where = prepare(), devices.select_device(device)
    display = partial(progress_display, device=where, tensorboard=tensorboard, json=json)
    if not json:
        step = initial.provenance["pretrained"]["step"] if initial else None
        weights = "from scratch" if step is None else f"from step {step} of {source}"
        work = f"{recipe.data.source}, {recipe.train.steps} steps, batch size {recipe.train.batch_size}"
        say(f"{recipe.name} {weights} on {work}, {devices.describe_device(where)}")
    plugins = plugin_options(plugin)
    resume = command_line(*sys.argv[1:]) if refit_on_validation else command_line("resume", out, *plugins)
    again = resume_command or resume
    with with_resume_hint(out, again):
        if refit_on_validation:
            outcome = finetune_and_refit(prepare, out, device=where, observer_for=display)
        else:
            with display(recipe) as observer:
                outcome = pretrain(recipe, out, device=where, observer=observer, initial=initial)
    print_summary(recipe, outcome, again, options=plugins, json=json)
