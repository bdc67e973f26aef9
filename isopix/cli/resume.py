"""`isopix resume`: resume an interrupted run."""

from pathlib import Path

from isopix.cli.console import Device, Json, Plugins, TensorBoard, load_plugins, plugin_options, say
from isopix.cli.run_display import ResumeCommand, print_summary, progress_display, with_resume_hint
from isopix.core import device as devices
from isopix.core.command_line import command_line
from isopix.interop.import_run import TENSOR_REPORT
from isopix.runs.load import find, recipe_of
from isopix.runs.resume import resume as resume_run
from isopix.storage.run_folder import RunFolder


def resume(
    run: Path,
    *,
    plugin: Plugins = None,
    device: Device = "auto",
    tensorboard: TensorBoard = False,
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
    load_plugins(plugin)
    found, _ = find(RunFolder.open(run).path, ())
    recipe, where = recipe_of(found), devices.select_device(device)
    step = found.records["state"]["step"]
    if not json and TENSOR_REPORT not in found.records:  # imported models cannot be resumed
        say(f"{recipe.name}, from step {step} of {recipe.train.steps}, {devices.describe_device(where)}")
    options = plugin_options(plugin)
    again = resume_command or command_line("resume", run, *options)
    with (
        with_resume_hint(run, again),
        progress_display(recipe, where, tensorboard=tensorboard, json=json) as watch,
    ):
        outcome = resume_run(run, device=where, observer=watch)
    print_summary(recipe, outcome, again, options=options, json=json)
