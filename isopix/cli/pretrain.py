"""`isopix pretrain`: pre-train a recipe on images."""

from pathlib import Path

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    PaletteFile,
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
    seed: RunSeed = None,
    probe_every: int | None = None,
    plugin: Plugins = None,
    device: Device = "auto",
    tensorboard: TensorBoard = False,
    json: Json = False,
    resume_command: ResumeCommand = None,
) -> None:
    """Pre-train a recipe on images; creates a run folder.

    Ctrl-C saves a checkpoint and prints the command that resumes the run.

    Example: isopix pretrain igpt.tiny --data photos/ --out runs/photos steps=300 depth=6

    Parameters
    ----------
    recipe
        Name from `isopix recipe list`.
    settings
        Settings to override, as name=value; `isopix recipe show` lists them.
    out
        Run folder to create; it must be new or empty.
    probe_every
        Interval in steps of a linear probe on a few labeled images; training itself is not affected.
    """
    load_plugins(plugin)
    shared = overrides(data=data, limit=limit, seed=seed, palette=palette)
    options = {**shared, "probe_every": probe_every}
    resolved = registry.resolve(recipe, file=file, options=options, assignments=settings).recipe
    where = devices.select_device(device)
    plugins = plugin_options(plugin)
    again = resume_command or command_line("resume", out, *plugins)
    with (
        with_resume_hint(out, again),
        progress_display(resolved, where, tensorboard=tensorboard, json=json) as watch,
    ):
        if not json:
            train = resolved.train
            work = f"{resolved.data.source}, {train.steps} steps, batch size {train.batch_size}"
            say(f"{resolved.name} on {work}, {devices.describe_device(where)}")
        outcome = pretrain_run(resolved, out, device=where, observer=watch)
    print_summary(resolved, outcome, again, options=plugins, json=json)
