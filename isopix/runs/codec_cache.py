"""The codec of a recipe, fitted to the training images once: a later run on the same images reads it."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from isopix.codecs.base import Codec
from isopix.core.config import to_dict
from isopix.data.dataset import ImageDataset
from isopix.recipes.recipe import Recipe
from isopix.storage import artifact
from isopix.storage.cache_folder import default_cache
from isopix.storage.hashing import hash_bytes
from isopix.storage.provenance import plugin_records
from isopix.storage.safetensors_io import read_tensors, write_tensors

VERSION = 1  # of all fitting: raise it when other codecs come of the same images
FILE = "codec.safetensors"
PREFIX = "codec."  # of the names of a codec's tensors, as in a checkpoint

Note = Callable[[str], None]


def fit_codec(recipe: Recipe, data: ImageDataset, *, note: Note = lambda text: None) -> Codec:
    """Return the codec of a recipe, fitted to the training images if it has to be.

    Fitted ones are kept in $ISOPIX_CACHE/codecs, by the images, the settings and the seed; `note` receives
    which of the two happens. One that cannot be written is not kept. Raises what `fit` of the codec raises.
    """
    spec = recipe.model.codec
    if not spec.fit_message:
        return spec.fit(data.train.images, recipe.grid, recipe.train.seed)
    folder = _folder(recipe, data)
    images = f"to {len(data.train):,} training images"
    kept = _read(folder, recipe)
    note(f"{spec.fit_message} {images}" + (" (read from the cache)" if kept else ""))
    return kept or _fit(folder, recipe, data)


def _folder(recipe: Recipe, data: ImageDataset) -> Path:
    settings = [VERSION, to_dict(recipe.model.codec), recipe.grid, recipe.train.seed, plugin_records()]
    key = hash_bytes(json.dumps(settings).encode(), data.fingerprint.encode())
    return default_cache() / "codecs" / key


def _read(folder: Path, recipe: Recipe) -> Codec | None:
    """Return the codec in a folder; None if there is none, or if it is damaged."""
    if artifact.read_manifest(folder) is None:
        return None
    return recipe.model.codec.from_state(read_tensors(folder / FILE), recipe.grid)


def _fit(folder: Path, recipe: Recipe, data: ImageDataset) -> Codec:
    codec = recipe.model.codec.fit(data.train.images, recipe.grid, recipe.train.seed)

    def write(scratch: Path) -> dict[str, Any]:
        write_tensors(scratch / FILE, {f"{PREFIX}{name}": each for name, each in codec.state_dict().items()})
        return {}

    with suppress(OSError):
        artifact.write_artifact(folder, write)
    return codec
