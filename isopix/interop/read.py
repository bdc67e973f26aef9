"""Models of other libraries, of the kind that their files state."""

from pathlib import Path

from pydantic import BaseModel

from isopix.codecs.palette_spec import read_palette
from isopix.core.config import changed
from isopix.core.files import read_regular
from isopix.interop.config import ImportConfig
from isopix.interop.imagegpt import read_imagegpt
from isopix.interop.imported_model import ImportedModel
from isopix.interop.openai import read_checkpoint
from isopix.interop.vit_read import read_huggingface_vit, read_timm
from isopix.interop.weights import CONFIG, read_config

SETTINGS = {
    "openai": ("palette",),
    "imagegpt": ("palette", "squash"),
    "vit": ("classes",),
    "vit_mae": (),
    "timm": ("classes",),
}
"""The settings that each kind of model has."""


class _Stated(BaseModel):
    model_type: str = ""
    architecture: str = ""  # of timm


def read_model(path: Path, config: ImportConfig) -> ImportedModel:
    """Return the model of a folder, or OpenAI's of a prefix of its files.

    Raises ValueError for another kind of model, and for a setting that its kind does not have.
    """
    kind = "openai"
    if path.is_dir() and not any(path.glob("*.index")):
        stated = read_config(path, CONFIG, _Stated)
        kind = "timm" if stated.architecture else stated.model_type
    if kind not in SETTINGS:
        raise ValueError(f"kind of model is {kind!r:.100}; allowed: {', '.join(SETTINGS)}")
    if others := [name for name in changed(config) if name not in SETTINGS[kind]]:
        allowed = ", ".join(SETTINGS[kind]) or "none"
        raise ValueError(f"{others[0]} is not for a model of kind {kind}; allowed: {allowed}")
    colors = None if config.palette is None else read_palette(config.palette).colors
    if kind == "openai":
        return read_checkpoint(path, colors)
    if kind == "imagegpt":
        return read_imagegpt(path, colors, squash=config.squash)
    return (read_timm if kind == "timm" else read_huggingface_vit)(path, _names(config.classes))


def _names(file: Path | None) -> tuple[str, ...]:
    if file is None:
        return ()
    names = tuple(filter(None, map(str.strip, read_regular(file).decode().splitlines())))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"{file} must name two or more different classes, one in each line")
    return names
