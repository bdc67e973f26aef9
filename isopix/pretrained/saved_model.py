"""Saved models: the folder that `isopix.save` writes and `isopix.load` reads."""

from dataclasses import replace
from pathlib import Path

from isopix.core import device as devices
from isopix.core.config import to_dict
from isopix.runs.load import LoadedRun
from isopix.runs.state import CLASSIFIER, MODEL
from isopix.storage import checkpoint


def write_model(loaded: LoadedRun, folder: Path) -> None:
    """Write weights, those of the class head too, recipe, palette and hashes as a checkpoint.

    Raises ValueError if it is a file or a folder that is not empty, RuntimeError if the disk is full.
    """
    target = folder.resolve()  # a link stays, and what it points to is written
    if target.exists() and not target.is_dir():
        raise ValueError(f"{folder} is a file; choose another folder")
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"{folder} is not empty; choose another folder")
    runtime = devices.runtime_environment(loaded.network.device)
    records = {
        "recipe": to_dict(loaded.recipe),
        "state": to_dict(replace(loaded.state, codec=loaded.network.codec.fingerprint())),
        "environment": to_dict(loaded.environment) if loaded.environment else runtime,
        **({"imported": loaded.imported} if loaded.imported else {}),
    }
    tensors = {MODEL: loaded.network.tensors()}
    if loaded.class_head is not None:
        tensors[CLASSIFIER] = loaded.class_head.state_dict()
    checkpoint.save_checkpoint(target, tensors, records)
