"""`isopix finetune`: a run, or a recipe from scratch, and labelled images become a classifier."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import Board, Device, Json, Limit, OwnSeed, SettingsFile, Source, changes, say
from isopix.cli.run_display import Again, conclude, going_on, watching
from isopix.core import device as devices
from isopix.core.command_line import command
from isopix.runs.finetune import prepare_finetune
from isopix.runs.pretrain import pretrain
from isopix.runs.refit import finetune_and_refit

FoldBack = Annotated[
    bool,
    Parameter(help="a run in OUT/selection chooses the step; then learn from train and validation so long"),
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
    fold_back: FoldBack = False,
    seed: OwnSeed = None,
    device: Device = "auto",
    tensorboard: Board = False,
    json: Json = False,
    again: Again = None,
) -> None:
    """Fine-tune a run on labelled images; a recipe's name starts from scratch.

    The weights with the best validation accuracy are kept, and judged on the test images at the end. Ctrl-C
    saves and says how to go on; with --fold-back the same command goes on.

    Example: isopix finetune runs/photos --data labelled/ --out runs/classes steps=500 batch_size=64

    Parameters
    ----------
    source
        The run folder of a pre-trained network, or the name of a recipe.
    settings
        Changes, as path=value; generative_weight, layer, pool, residual_block, dropout, label_smoothing,
        patience, mask_ratio, mask_at_eval and interpolation are those of fine-tuning.
    out
        The run folder; it must be new or empty.
    labels
        Use so many training images of each class alone, or a share as in 10%.
    subset
        Which random draw of them: 0, 1, ...
    """
    shared = changes(data=data, limit=limit, seed=seed)
    options = {**shared, "data.labels": labels, "data.subset": subset}
    beginning = partial(prepare_finetune, source, file=file, options=options, assignments=settings)
    (recipe, initial), where = beginning(), devices.pick(device)
    looking_on = partial(watching, device=where, tensorboard=tensorboard, json=json)
    if not json:
        whence = (
            f"from step {initial.provenance['pretrained']['step']} of {source}" if initial else "from scratch"
        )
        work = f"{recipe.data.source}, {recipe.train.steps} steps of {recipe.train.batch_size}"
        say(f"{recipe.name} {whence} on {work}, {devices.describe(where)}")
    again = again or (command(*sys.argv[1:]) if fold_back else command("resume", out))
    with going_on(out, again):
        if fold_back:
            outcome = finetune_and_refit(beginning, out, device=where, observer_for=looking_on)
        else:
            with looking_on(recipe) as watch:
                outcome = pretrain(recipe, out, device=where, observer=watch, initial=initial)
    conclude(recipe, outcome, again, json=json)
