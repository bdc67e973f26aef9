"""`isopix resume`: an interrupted run goes on."""

from pathlib import Path

from isopix.cli.console import Board, Device, Json, say
from isopix.cli.run_display import Again, conclude, going_on, watching
from isopix.core import device as devices
from isopix.core.command_line import command
from isopix.interop.import_run import ACCOUNTS
from isopix.runs.load import find_checkpoint, recipe_of
from isopix.runs.resume import resume as resume_run
from isopix.storage.run_folder import RunFolder


def resume(
    run: Path,
    *,
    device: Device = "auto",
    tensorboard: Board = False,
    json: Json = False,
    again: Again = None,
) -> None:
    """Go on with an interrupted run from its last checkpoint, bit for bit on the same CPU.

    The same threads and versions give the weights that the uninterrupted run would have; where they differ,
    the log says so. A GPU's kernels may add in another order each time.

    Example: isopix resume runs/photos

    Parameters
    ----------
    run
        The run folder.
    """
    found, _ = find_checkpoint(RunFolder.open(run).path, ())
    recipe, where = recipe_of(found), devices.pick(device)
    step = found.records["state"]["step"]
    if not json and ACCOUNTS not in found.records:  # an imported model is refused
        say(f"{recipe.name} from step {step} of {recipe.train.steps}, {devices.describe(where)}")
    again = again or command("resume", run)
    with going_on(run, again), watching(recipe, where, tensorboard=tensorboard, json=json) as watch:
        outcome = resume_run(run, device=where, observer=watch)
    conclude(recipe, outcome, again, json=json)
