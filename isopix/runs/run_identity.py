"""The identity of a run: its random id, and the hashes of its lists of images, in each of its checkpoints."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from isopix.storage.checkpoint import STEP_NAME, Checkpoint, DamagedCheckpointError
from isopix.storage.hashing import sha256_of
from isopix.storage.record_types import read_environment, shown
from isopix.storage.run_folder import RunFolder


def run_identity(folder: RunFolder, found: Checkpoint | None) -> dict[str, Any]:
    """Return the values that identify a run, for the state of its checkpoints: `run_id`, None for a run of an
    earlier version, and `files`, SHA-256 by name. `found` is the checkpoint that it is resumed from.
    """
    if found is not None and "files" in found.records["state"]:
        state = found.records["state"]
        return {"run_id": state.get("run_id"), "files": state["files"]}
    lists = (folder.training_images, folder.labeled_images)
    return {
        "run_id": _recorded_id(folder),
        "files": {path.name: sha256_of(path) for path in lists if path.is_file()},
    }


def check_identity(found: Checkpoint) -> None:
    """Raise DamagedCheckpointError for a checkpoint of another run or another step than its folder's.

    A folder outside of a run, and a run of an earlier version, have no id to compare with.
    """
    path, state = found.path.absolute(), found.records["state"]
    if path.parent.name == RunFolder(path).checkpoints.name:
        run = RunFolder(path.parent.parent)
        named = STEP_NAME.fullmatch(path.name)
        if named and int(named[1]) != state["step"]:
            raise DamagedCheckpointError(
                found.path, f"state.json has step {state['step']}, which is not that of the folder's name"
            )
    elif path.name == RunFolder(path).best.name:
        run = RunFolder(path.parent)
    else:
        return
    own = _recorded_id(run)
    if own is not None and state.get("run_id") != own:
        raise DamagedCheckpointError(
            found.path,
            f"state.json has run id {shown(state.get('run_id'))}; that of {run.path} is {shown(own)}",
        )


def _recorded_id(run: RunFolder) -> str | None:
    """Return the id in environment.json; None if there is none or the file is damaged."""
    recorded: Mapping[str, Any] = {}
    with suppress(OSError, ValueError):  # of no consequence here, and a finding of those who need the file
        recorded = read_environment(run.environment)
    return recorded.get("run_id")
