"""What a training starts from: its recipe after all settings, and the weights of another run."""

import json
import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import flatten
from isopix.core.text import command_line
from isopix.data.known_sources import require_known_source
from isopix.data.splits import Hashes
from isopix.finetuning.config import FineTuneConfig
from isopix.model.network import Network
from isopix.model.positions import resize_pos_embed
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.shipped import check_model_name, find_model

# What the meaning of the weights depends on: the network, which codes it predicts, and what it is shown.
NETWORK = ("model.", "objective.kind", "objective.corruption.")
CODEC = "model.codec"

PathLike = str | os.PathLike[str]


class InitialWeights(NamedTuple):
    """A network to start from, and the records of it for the run folder."""

    network: Network
    provenance: dict[str, Any]
    notes: tuple[str, ...] = ()  # for the log
    seen: Hashes | None = None  # hashes of the images that it was trained on or selected by
    seen_known: bool = True  # whether these are all
    labels_seen: int | None = 0  # labels that it was trained on; None if that is not known
    labeled: Hashes | None = None  # hashes of the images of these labels, if they are known
    decoder_valid: bool = True  # whether its decoder was trained with its backbone


class TrainingStart(NamedTuple):
    """What to train, and the weights to start from; None: from scratch."""

    recipe: Recipe
    initial: InitialWeights | None

    def again(self) -> InitialWeights | None:
        """Return a copy of the initial weights, for one of several trainings: each changes its own."""
        return self.initial and self.initial._replace(network=deepcopy(self.initial.network))

    def settings(self) -> dict[str, Any]:
        """Return the settings and the origin of the weights, to compare with those of another time."""
        settings = to_dict(with_absolute_paths(self.recipe))
        return settings | {"pretrained": self.initial and self.initial.provenance.get("pretrained")}


def prepare_pretrain(
    recipe: str | Recipe | None,
    settings: Sequence[str] = (),
    *,
    weights: PathLike | None = None,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> TrainingStart:
    """Return how to pre-train a recipe, from scratch or from the `weights` in a run or checkpoint folder, by
    default with its recipe; then the optimizer starts anew, and the codec is that of the weights.

    Raises ValueError for a recipe of another network, for a fine-tuned run without one, and for wrong
    settings.
    """
    loaded = None if weights is None else _load(find_model(Path(weights)))
    base = loaded.recipe if loaded and recipe is None else recipe
    if base is None:
        raise ValueError("pretrain needs the name of a recipe (isopix recipe list), or --from RUN")
    if loaded and recipe is None and loaded.recipe.finetune is not None:
        command = command_line("pretrain", "RECIPE", "--from", weights)
        raise ValueError(f"run {weights} is fine-tuned; name the recipe of pre-training: {command}")
    found = registry.resolve(base, file=file, options=options, assignments=settings)
    if weights is None or loaded is None:
        return TrainingStart(found.recipe, None)
    own = _with_codec_of(loaded.recipe, found)
    if changed := changed_settings(NETWORK, own, loaded.recipe):
        texts = [
            f"{path}={json.dumps(had)}, not {json.dumps(given)}" for path, (had, given) in changed.items()
        ]
        raise ValueError(
            f"the weights of {weights} have {'; '.join(texts)}; only the same network can start from them"
        )
    if recipe is None and "data.source" not in found.origins:
        require_known_source(own.data.source)
    return TrainingStart(own, initial_weights(weights, own, loaded))


def initial_weights(source: PathLike, recipe: Recipe, loaded: LoadedRun) -> InitialWeights:
    """Return the weights of a run, the folder `source`, with its codec, for training a recipe.

    Position embeddings are interpolated for another grid. Raises ValueError if a block has weights per
    position.
    """
    run = str(find_model(Path(source)).resolve())
    return InitialWeights(
        _resized(recipe, loaded),
        {"pretrained": {"run": run, "step": loaded.step}},
        seen=loaded.seen,
        seen_known=loaded.seen_known,
        labels_seen=loaded.state.labels_seen,
        labeled=loaded.labeled,
        decoder_valid=loaded.state.decoder_valid,
    )


def _load(source: Path) -> LoadedRun:
    check_model_name(source)
    return load_run(source, device=torch.device("cpu"))


def changed_settings(groups: tuple[str, ...], recipe: Recipe, trained: Recipe) -> dict[str, tuple[Any, Any]]:
    """Return the settings of a trained network that a recipe changes, with its value and the one of the
    recipe; `groups` are the beginnings of the names of these settings.

    A dropout has no weights, and may differ.
    """
    given, own = flatten(to_dict(recipe)), flatten(to_dict(trained))
    names = (path for path in own if path.startswith(groups) and not path.endswith("dropout"))
    return {path: (own[path], given.get(path)) for path in names if given.get(path) != own[path]}


def _resized(recipe: Recipe, loaded: LoadedRun) -> Network:
    """Return the network of the recipe, with interpolated position embeddings for another grid (ViT section
    3.2).
    """
    if recipe.grid == loaded.recipe.grid and recipe.model == loaded.recipe.model:
        return loaded.network
    mode = (recipe.finetune or FineTuneConfig()).interpolation
    tensors = resize_pos_embed(loaded.network.tensors(), loaded.recipe.grid, recipe.grid, mode)
    return recipe.restore(recipe.model.codec.from_state(tensors, recipe.grid), tensors)


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Return the recipe with absolute paths of files, so that it means the same in every folder."""
    source = Path(recipe.data.source)
    if source.exists():
        recipe = replace(recipe, data=replace(recipe.data, source=str(source.resolve())))
    return recipe.updated(codec=recipe.model.codec.with_absolute_paths())


def _with_codec_of(trained: Recipe, resolved: registry.Resolved) -> Recipe:
    """Return the recipe with the codec of the weights where the data would choose one: a palette is that of
    the first training images.
    """
    own, codec = resolved.recipe, trained.model.codec
    origins = {origin for path, origin in resolved.origins.items() if path.startswith(CODEC)}
    of_data = origins == {registry.PALETTE_OF_DATA} and type(own.model.codec) is type(codec)
    return own.updated(codec=codec) if of_data else own
