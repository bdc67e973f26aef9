"""Models of other libraries, of the kind that their files state."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from isopix.codecs.palette_spec import read_palette
from isopix.core.files import read_regular
from isopix.core.types import Grid
from isopix.interop.config import ImportConfig
from isopix.interop.imagegpt import read_imagegpt
from isopix.interop.imported_model import ImportedModel
from isopix.interop.openai import read_checkpoint
from isopix.interop.vit_read import read_huggingface_vit, read_timm
from isopix.interop.weights import CONFIG, read_config


class Kind(NamedTuple):
    """A kind of model: its name, how it is read, and the settings of an import that it has."""

    title: str
    read: Callable[[Path, ImportConfig], ImportedModel]
    settings: tuple[str, ...] = ()


def is_local(source: Path) -> bool:
    """Return whether a source is a file, a folder or the prefix of files, not a name on the Hub."""
    return source.exists() or source.with_name(f"{source.name}.index").is_file()


def read_model(path: Path, config: ImportConfig) -> ImportedModel:
    """Return the model of a folder, or OpenAI's of a prefix of its files.

    Raises ValueError for a kind that is not known, and for a setting that is not of its kind.
    """
    kind = _kind(path)
    given = [each.name for each in fields(config) if getattr(config, each.name) != each.default]
    if others := [name for name in given if name not in kind.settings]:
        allowed = ", ".join(kind.settings) or "none"
        raise ValueError(f"{others[0]} is not for {kind.title}; allowed: {allowed}")
    return kind.read(path, config)


class _Stated(BaseModel):
    model_type: str = ""
    architecture: str = ""  # of timm


def _kind(path: Path) -> Kind:
    if not path.is_dir() or any(path.glob("*.index")):
        return OPENAI
    stated = read_config(path, CONFIG, _Stated)
    kind = "timm" if stated.architecture else stated.model_type
    if kind not in KINDS:
        raise ValueError(f"model_type is {kind!r:.100}; allowed: {', '.join(KINDS)}")
    return KINDS[kind]


def _openai(prefix: Path, config: ImportConfig) -> ImportedModel:
    if config.palette is None:
        raise ValueError("palette is missing: OpenAI's kmeans_centers.npy, or a palette file")
    return read_checkpoint(prefix, read_palette(config.palette).colors, grid=_grid(config))


def _imagegpt(folder: Path, config: ImportConfig) -> ImportedModel:
    colors = None if config.palette is None else read_palette(config.palette).colors
    return read_imagegpt(folder, colors, grid=_grid(config), squash=config.squash)


def _grid(config: ImportConfig) -> Grid | None:
    return None if config.size is None else Grid(*config.size)


def _with_classes(
    read: Callable[[Path, tuple[str, ...]], ImportedModel],
) -> Callable[[Path, ImportConfig], ImportedModel]:
    return lambda folder, config: read(folder, _names(config.classes))


def _names(file: Path | None) -> tuple[str, ...]:
    if file is None:
        return ()
    names = tuple(filter(None, map(str.strip, read_regular(file).decode().splitlines())))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"{file} must name two or more different classes, one in each line")
    return names


OPENAI = Kind("an Image GPT of OpenAI", _openai, ("palette", "size"))
KINDS = {
    "imagegpt": Kind("an ImageGPT", _imagegpt, ("palette", "size", "squash")),
    "vit": Kind("a ViT", _with_classes(read_huggingface_vit), ("classes",)),
    "vit_mae": Kind("a ViTMAE", _with_classes(read_huggingface_vit)),
    "timm": Kind("a ViT of timm", _with_classes(read_timm), ("classes",)),
}
"""By `model_type` of config.json."""
