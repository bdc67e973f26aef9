"""`isopix resume`: resume an interrupted run."""

from pathlib import Path

from isopix.api import training
from isopix.cli.console import Device, Json, Loggers, Plugins, load_plugins, plugin_options
from isopix.cli.launch import Devices, device_options, launch_ranks
from isopix.cli.run_display import (
    ResumeCommand,
    TrainingDisplay,
    print_summary,
    unless_stopped,
    with_resume_hint,
)
from isopix.core.command_line import command_line


def resume(
    run: Path,
    *,
    plugin: Plugins = None,
    device: Device = "auto",
    devices: Devices = None,
    logger: Loggers = None,
    json: Json = False,
    resume_command: ResumeCommand = None,
) -> None:
    """Resume an interrupted run from its last checkpoint.

    On CPU, with the same number of threads and the same versions, the weights are bit-identical to those of
    an uninterrupted run; differences are logged. GPU kernels may not be deterministic.

    Example: isopix resume runs/photos

    Parameters
    ----------
    run
        Run folder.
    """
    launch_ranks(devices, device)
    load_plugins(plugin)
    plugins = plugin_options(plugin)
    again = resume_command or command_line("resume", run, *plugins, *device_options(devices))
    with with_resume_hint(run, again), TrainingDisplay(device, json=json) as display:
        resumed = unless_stopped(
            lambda: training.resume(run, device=device, loggers=logger or (), progress=display)
        )
    print_summary(resumed, again, options=plugins, json=json)
