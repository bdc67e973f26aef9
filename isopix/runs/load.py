"""A run folder, or one of its checkpoints, becomes a network again."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.codecs.base import Codec
from isopix.core.config import from_dict
from isopix.model.backbone import Backbone
from isopix.objectives.network import Network
from isopix.recipes.recipe import Recipe
from isopix.storage import checkpoint
from isopix.storage.checkpoint import Checkpoint, DamagedError
from isopix.storage.run_folder import RunFolder

WEIGHTS = ("model",)


class Loaded(NamedTuple):
    """A network as it was at `step`, damaged checkpoints that were passed over, newest first, and the records
    that were saved with it.
    """

    recipe: Recipe
    network: Network
    step: int
    passed_over: list[str]
    records: dict[str, dict[str, Any]]

    def untrained(self) -> Backbone:
        """Return an untrained backbone of depth 1; position embeddings do not depend on the depth."""
        return replace(self.recipe, depth=1).build(self.network.codec).backbone.to(self.network.device)


def load(path: Path, *, device: torch.device) -> Loaded:
    """The network in a checkpoint folder, or of a run folder: the newest intact one, of a fine-tuned run the
    best.

    Raises ValueError if there is none, if a file of it is damaged, or if the palette is not the one whose
    hash the checkpoint states.
    """
    found, passed_over = find(best_or_newest(path), WEIGHTS)
    network = revive(found).to(device)
    return Loaded(recipe_of(found), network, found.records["state"]["step"], passed_over, found.records)


def best_or_newest(path: Path) -> Path:
    """Where the weights are that speak for a run: in `best/` if there is such a checkpoint, else the path
    itself, of which `find` takes the newest.
    """
    best = RunFolder(path).best
    return best if (best / checkpoint.MANIFEST).is_file() else path


def find(path: Path, groups: Collection[str] | None = None) -> tuple[Checkpoint, list[str]]:
    """The checkpoint at that path, and what is wrong with newer ones. Raises ValueError if there is none."""
    if (path / checkpoint.MANIFEST).is_file():
        return checkpoint.load(path, groups), []
    run = RunFolder.open(path)
    found = checkpoint.newest(run.checkpoints, groups)
    if found.checkpoint is None:
        raise ValueError(_without(path))
    return found.checkpoint, [str(error) for error in found.rejected]


def newest(path: Path) -> Path:
    """The checkpoint folder at that path, or the newest of a run folder, intact or not. Raises ValueError if
    there is none.
    """
    if (path / checkpoint.MANIFEST).is_file():
        return path
    last = checkpoint.last(RunFolder.open(path).checkpoints)
    if last is None:
        raise ValueError(_without(path))
    return last


def recipe_of(found: Checkpoint) -> Recipe:
    """The settings that the checkpoint was made with. Raises DamagedError if what every checkpoint has is
    missing.
    """
    for name in ("recipe", "state"):
        if name not in found.records:
            raise DamagedError(found.path, f"{name}.json is missing")
    for key in ("step", "codec", "data"):
        if key not in found.records["state"]:
            raise DamagedError(found.path, f"state.json has no '{key}'")
    return from_dict(Recipe, found.records["recipe"])


def revive(found: Checkpoint) -> Network:
    """The network of a checkpoint, with its weights and its palette; nothing is drawn or held twice."""
    codec = codec_of(found)
    with torch.device("meta"):
        network = recipe_of(found).assemble(codec)
    network.load(found.tensors["model"])
    return network


def codec_of(found: Checkpoint) -> Codec:
    """The codec of a checkpoint. Raises ValueError if it is not the one whose hash the checkpoint states."""
    recipe = recipe_of(found)
    try:
        codec = recipe.codec.restore(found.tensors["model"], recipe.grid)
    except LookupError as error:
        raise DamagedError(found.path, f"model.safetensors has no tensor {error}") from None
    refuse_other_codec(codec, found)
    return codec


def refuse_other_codec(codec: Codec, found: Checkpoint) -> None:
    """Raises ValueError if `codec` is not the one that this checkpoint was trained with."""
    stated = found.records["state"]["codec"]
    if codec.fingerprint() != stated:
        raise ValueError(
            f"palette {codec.fingerprint()[:12]} is not palette {stated[:12]}, "
            f"which checkpoint {found.path} was trained with"
        )


def _without(path: Path) -> str:
    return f"run folder {path} holds no checkpoint yet; start it anew under another --out"
