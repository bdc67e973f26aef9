"""`isopix pretrain`: a recipe and images become a run folder."""

from pathlib import Path

from isopix.cli.console import (
    Board,
    Device,
    Json,
    Limit,
    OwnSeed,
    PaletteFile,
    SettingsFile,
    Source,
    changes,
    say,
)
from isopix.cli.run_display import Again, conclude, going_on, watching
from isopix.core import device as devices
from isopix.core.command_line import command
from isopix.recipes import registry
from isopix.runs.pretrain import pretrain as pretrain_run


def pretrain(
    recipe: str,
    *settings: str,
    out: Path,
    data: Source = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: OwnSeed = None,
    probe_every: int | None = None,
    device: Device = "auto",
    tensorboard: Board = False,
    json: Json = False,
    again: Again = None,
) -> None:
    """Pre-train a recipe on images; makes a run folder.

    Ctrl-C saves and says how to go on. What the run folder holds then is enough for every other verb.

    Example: isopix pretrain igpt.tiny --data photos/ --out runs/photos steps=300 batch_size=32

    Parameters
    ----------
    recipe
        A name from `isopix recipe list`.
    settings
        Changes, as path=value; `isopix recipe show` lists the paths.
    out
        The run folder; it must be new or empty.
    probe_every
        Also probe the network every so many steps, on a few labelled images; changes nothing else.
    """
    shared = changes(data=data, limit=limit, seed=seed, palette=palette)
    options = {**shared, "probe_every": probe_every}
    settled = registry.resolve(recipe, file=file, options=options, assignments=settings).recipe
    where = devices.pick(device)
    work = f"{settled.data.source}, {settled.train.steps} steps of {settled.train.batch_size}"
    again = again or command("resume", out)
    with going_on(out, again), watching(settled, where, tensorboard=tensorboard, json=json) as watch:
        if not json:
            say(f"{settled.name} on {work}, {devices.describe(where)}")
        outcome = pretrain_run(settled, out, device=where, observer=watch)
    conclude(settled, outcome, again, json=json)
