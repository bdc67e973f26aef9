"""Training from the weights of a run: the same network, for images of the same or another size."""

from pathlib import Path
from typing import Any

from isopix.core.config import to_dict
from isopix.core.overrides import flatten
from isopix.finetuning.config import FineTuneConfig
from isopix.model.network import Network
from isopix.model.positions import resize_pos_embed
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun
from isopix.runs.pretrain import InitialWeights
from isopix.runs.shipped import find_model


def initial_weights(source: str, recipe: Recipe, loaded: LoadedRun) -> InitialWeights:
    """Return the weights of a run, the folder `source`, with its codec, for training a recipe.

    Position embeddings are interpolated for another grid. Raises ValueError if a block has weights per
    position.
    """
    return InitialWeights(
        _resized(recipe, loaded),
        {"pretrained": {"run": str(find_model(Path(source)).resolve()), "step": loaded.step}},
        seen=loaded.seen,
        seen_known=loaded.seen_known,
        labels_seen=loaded.labels_seen,
        labeled=loaded.labeled,
        decoder_valid=loaded.decoder_valid,
    )


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
