"""`isopix resume`: resume an interrupted run."""

from functools import partial
from pathlib import Path

from isopix.api import starts, training
from isopix.cli.console import Device, Json, Loggers, Plugins, follow_up_options, load_plugins
from isopix.cli.launch import Devices, SlurmParameters, is_to_submit, launch_ranks, submit
from isopix.cli.run_display import (
    ResumeCommand,
    print_summary,
    unless_stopped,
    with_resume_hint,
)
from isopix.core.text import command_line


def resume(
    run: Path,
    *,
    plugin: Plugins = None,
    device: Device = "auto",
    devices: Devices = None,
    logger: Loggers = None,
    slurm: SlurmParameters = None,
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
    if is_to_submit(slurm):
        load_plugins(plugin)
        check = partial(starts.check_resume, run, logger or ())
        submit(slurm, run, check, devices=devices, json=json)
        return
    launch_ranks(devices, device)
    load_plugins(plugin)
    options = follow_up_options(plugin=plugin, device=device, devices=devices, logger=logger, slurm=slurm)
    again = resume_command or command_line("resume", run, *options)
    with with_resume_hint(run, again):
        resumed = unless_stopped(lambda: training.resume(run, device=device, loggers=logger or ()))
    print_summary(resumed, again, options=follow_up_options(plugin=plugin), json=json)
