"""Load and save models from Python."""

import os
from pathlib import Path

from isopix.core import device as devices
from isopix.core.device import DeviceLike, Precision
from isopix.core.verb import checked
from isopix.model.backbone import FeatureKind
from isopix.model.pool import Pool
from isopix.pretrained.model import PretrainedModel
from isopix.runs.load import load_run
from isopix.runs.shipped import check_model_name, find_model
from isopix.storage import hub
from isopix.storage.run_folder import reject_huggingface_model


@checked
def load(
    name_or_path: str | os.PathLike[str],
    *,
    layer: int = -1,
    pool: Pool | None = None,
    features: FeatureKind = "normed",
    device: DeviceLike = "auto",
    precision: Precision = "fp32",
) -> PretrainedModel:
    """Load a model from a run folder, a folder written by `save`, one that comes with the package
    (`list_models`), or the Hugging Face Hub (`owner/name`).

    `pool` is by default that of the recipe: `first` (the class token) of a model that has one, else `mean`.
    Raises ValueError if there is no such model or it is damaged, RuntimeError if the Hub cannot be reached.
    """
    path = find_model(Path(name_or_path))
    if len(path.parts) == 1:  # others are of the Hub
        check_model_name(path)
    folder = hub.resolve_path(path)
    reject_huggingface_model(folder, name_or_path)
    loaded = load_run(folder, device=devices.select_device(device))
    return PretrainedModel(loaded, layer=layer, pool=pool, features=features, precision=precision)


@checked
def save(model: PretrainedModel, folder: str | os.PathLike[str]) -> None:
    """Write a folder that `load` reads; see `PretrainedModel.save`."""
    model.save(folder)
