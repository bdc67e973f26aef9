"""Pre-training that starts from the weights of a run: for more steps, or on other images."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from isopix.core.text import command_line
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.initial_weights import changed_settings, initial_weights
from isopix.runs.load import load_run
from isopix.runs.pretrain import TrainingStart
from isopix.runs.shipped import check_model_name, find_model

# What the meaning of the weights depends on: the network, which codes it predicts, and what it is shown.
NETWORK = ("model.", "objective.kind", "objective.corruption.")
CODEC = "model.codec"


def prepare_continued(
    weights: str,
    recipe: str | Recipe | None,
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
) -> TrainingStart:
    """Return how to pre-train a recipe, by default that of the run, from the weights in a run or checkpoint
    folder. The optimizer starts anew, and the codec is that of the weights.

    Raises ValueError for a recipe of another network, for a fine-tuned run without one, and for wrong
    settings.
    """
    source = find_model(Path(weights))
    check_model_name(source)
    loaded = load_run(source, device=torch.device("cpu"))
    if recipe is None and loaded.recipe.finetune is not None:
        command = command_line("pretrain", "RECIPE", "--from", weights)
        raise ValueError(f"run {weights} is fine-tuned; name the recipe of pre-training: {command}")
    resolved = registry.resolve(
        loaded.recipe if recipe is None else recipe, file=file, options=options, assignments=assignments
    )
    own = _with_codec_of(loaded.recipe, resolved)
    if changed := changed_settings(NETWORK, own, loaded.recipe):
        texts = (
            f"{path}={json.dumps(had)}, not {json.dumps(given)}" for path, (had, given) in changed.items()
        )
        raise ValueError(
            f"the weights of {weights} have {'; '.join(texts)}; only the same network can start from them"
        )
    return TrainingStart(own, initial_weights(weights, own, loaded))


def _with_codec_of(trained: Recipe, resolved: registry.Resolved) -> Recipe:
    """Return the recipe with the codec of the weights where the data would choose one: a palette is that of
    the first training images.
    """
    own, codec = resolved.recipe, trained.model.codec
    origins = {origin for path, origin in resolved.origins.items() if path.startswith(CODEC)}
    of_data = origins == {registry.PALETTE_OF_DATA} and type(own.model.codec) is type(codec)
    return own.updated(codec=codec) if of_data else own
