"""The codec of a recipe, fitted to the training images once: a later run on the same images reads it."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from isopix.codecs.base import Codec
from isopix.core.config import to_dict
from isopix.core.types import ImageSequence
from isopix.data.dataset import ImageDataset
from isopix.recipes.recipe import Recipe
from isopix.storage.arrays import read_tensors, write_tensors
from isopix.storage.cache import default_cache, read_manifest, write_artifact
from isopix.storage.provenance import hash_bytes, plugin_records

MAX_IMAGES = 100_000  # to which a codec is fitted: more take longer, and change it little
VERSION = 2  # of all fitting: raise it when other codecs come of the same images
FILE = "codec.safetensors"
PREFIX = "codec."  # of the names of a codec's tensors, as in a checkpoint

Note = Callable[[str], None]


def fit_codec(recipe: Recipe, data: ImageDataset, *, note: Note = lambda text: None) -> Codec:
    """Return the codec of a recipe, fitted to the training images if it has to be; of more than 100,000, to
    that many which the seed chooses.

    Fitted ones are kept in $ISOPIX_CACHE/codecs, by the images, the settings and the seed; `note` receives
    which of the two happens. One that cannot be written is not kept. Raises what `fit` of the codec raises.
    """
    spec = recipe.model.codec
    if not spec.fit_message:
        return spec.fit(data.train.images, recipe.grid, recipe.train.seed)
    folder = _folder(recipe, data)
    images = data.train.sample(MAX_IMAGES, recipe.train.seed).images
    part = "" if len(images) == len(data.train) else f"{len(images):,} of "
    kept = _read(folder, recipe)
    read = " (read from the cache)" if kept else ""
    note(f"{spec.fit_message} to {part}{len(data.train):,} training images{read}")
    return kept or _fit(folder, recipe, images)


def _folder(recipe: Recipe, data: ImageDataset) -> Path:
    fit = [VERSION, MAX_IMAGES, to_dict(recipe.model.codec), recipe.grid, recipe.train.seed]
    settings = [*fit, plugin_records()]
    key = hash_bytes(json.dumps(settings).encode(), data.fingerprint.encode())
    return default_cache() / "codecs" / key


def _read(folder: Path, recipe: Recipe) -> Codec | None:
    """Return the codec in a folder; None if there is none, or if it is damaged."""
    if read_manifest(folder) is None:
        return None
    return recipe.model.codec.from_state(read_tensors(folder / FILE), recipe.grid)


def _fit(folder: Path, recipe: Recipe, images: ImageSequence) -> Codec:
    codec = recipe.model.codec.fit(images, recipe.grid, recipe.train.seed)

    def write(scratch: Path) -> dict[str, Any]:
        write_tensors(scratch / FILE, {f"{PREFIX}{name}": each for name, each in codec.state_dict().items()})
        return {}

    with suppress(OSError):
        write_artifact(folder, write)
    return codec
