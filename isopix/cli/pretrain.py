"""`isopix pretrain`: pre-train a recipe on images."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.api import starts, training
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    Loggers,
    PaletteFile,
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


def pretrain(
    recipe: str | None = None,
    *settings: str,
    out: Path,
    weights: Annotated[Path | None, Parameter(name="--from")] = None,
    data: Source = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: RunSeed = None,
    probe_every: int | None = None,
    plugin: Plugins = None,
    device: Device = "auto",
    devices: Devices = None,
    logger: Loggers = None,
    slurm: SlurmParameters = None,
    json: Json = False,
    resume_command: ResumeCommand = None,
) -> None:
    """Pre-train a recipe on images; creates a run folder.

    Ctrl-C saves a checkpoint and prints the command that resumes the run.

    Example: isopix pretrain igpt.tiny --data photos/ --out runs/photos steps=300 depth=6

    Example: isopix pretrain --from runs/photos --out runs/longer steps=1000

    Parameters
    ----------
    recipe
        Name from `isopix recipe list`; with --from, the default is that of the run.
    settings
        Settings to override, as name=value; `isopix recipe show` lists them.
    out
        Run folder to create; it must be new or empty.
    weights
        Run folder, checkpoint folder or model of `isopix models` to start from: its weights and codec, with a
        new optimizer.
    probe_every
        Interval in steps of a linear probe on a few labeled images; training itself is not affected.
    """
    if recipe is not None and "=" in recipe:
        settings, recipe = (recipe, *settings), None
    given: dict[str, Any] = {"weights": weights, "data": data, "overrides": settings, "file": file}
    given |= {"palette": palette, "limit": limit, "seed": seed, "probe_every": probe_every}
    if is_to_submit(slurm):
        load_plugins(plugin)
        check = partial(starts.check_job, starts.pretrain_start(recipe, **given).recipe, out, logger or ())
        submit(slurm, out, check, devices=devices, json=json)
        return
    launch_ranks(devices, device)
    load_plugins(plugin)
    options = follow_up_options(plugin=plugin, device=device, devices=devices, logger=logger, slurm=slurm)
    again = resume_command or command_line("resume", out, *options)
    with with_resume_hint(out, again):
        run = unless_stopped(
            lambda: training.pretrain(recipe, out=out, **given, device=device, loggers=logger or ())
        )
    print_summary(run, again, options=follow_up_options(plugin=plugin), json=json)
