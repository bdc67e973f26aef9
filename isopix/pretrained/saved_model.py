"""Saved models: the folder that `isopix.save` writes and `isopix.load` reads."""

from pathlib import Path

from isopix.core import device as devices
from isopix.core.config import to_dict
from isopix.runs.checkpoint_content import CLASSIFIER, MODEL
from isopix.runs.load import LoadedRun
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
    codec = loaded.network.codec.fingerprint()
    records = {
        "environment": devices.runtime_environment(loaded.network.device),
        **loaded.records,
        "recipe": to_dict(loaded.recipe),
        "state": {**loaded.records["state"], "step": loaded.step, "codec": codec},
    }
    tensors = {MODEL: loaded.network.tensors()}
    if loaded.class_head is not None:
        tensors[CLASSIFIER] = loaded.class_head.state_dict()
    checkpoint.save_checkpoint(target, tensors, records)
