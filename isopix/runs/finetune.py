"""Fine-tuning settings and initial weights, from a run folder or the name of a recipe."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import flatten, override, parse
from isopix.data.patch_augment import NoPatchAugment
from isopix.data.sources.base import finetune_augmentation
from isopix.finetuning.classifier import FineTuneModel
from isopix.finetuning.config import FineTuneConfig
from isopix.model.pool import default_pool
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.recipes.registry import with_affordable_evaluation, with_palette_of_data
from isopix.runs.initial_weights import changed_settings, initial_weights
from isopix.runs.load import load_run
from isopix.runs.pretrain import TrainingStart
from isopix.runs.shipped import find_copy
from isopix.train.optim import ConstantSchedule

STEPS, EVALUATE_EVERY = 1000, 50
SOURCE = ("source", "data.source")  # how the setting is named
LR_FACTOR = 0.1  # of pre-training's learning rate; often the best (iGPT section 4.5)
FINETUNE_FIELDS = tuple(each.name for each in fields(FineTuneConfig))


def prepare_finetune(
    source: str,
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
) -> TrainingStart:
    """Return how to fine-tune the run folder `source`, or the recipe of that name from scratch.

    The names of `FineTuneConfig` go without their group (`generative_weight=1`), even where other groups have
    such a setting. With another `data.size` position embeddings are interpolated. Raises ValueError if
    `source` is neither a folder nor a recipe, and for wrong settings.
    """
    folder = find_copy(Path(source))
    loaded = load_run(folder, device=torch.device("cpu")) if folder.exists() else None
    base = loaded.recipe if loaded else registry.find(source, "no run folder or recipe")
    layers = [changes for _, changes in registry.layers(file, options, assignments)]
    given = (changes[path] for changes in layers for path in SOURCE if path in changes)
    *_, images = base.data.source, *given
    recipe = finetune_recipe(base, str(images), from_scratch=loaded is None)
    for changes in layers:
        recipe = _override(recipe, changes)
    if loaded is None:
        recipe = with_palette_of_data(recipe, [path for changes in layers for path in changes])
    else:
        _check_same_network(recipe, loaded.recipe)
    # All test images, so that runs of any length can be compared image by image.
    keep = ["num_test_images", *(path for changes in layers for path in changes)]
    recipe = with_affordable_evaluation(recipe, keep)
    _check_parts(recipe)
    return TrainingStart(recipe, None if loaded is None else initial_weights(source, recipe, loaded))


def finetune_recipe(recipe: Recipe, source: str, *, from_scratch: bool) -> Recipe:
    """Return the fine-tuning recipe on a source of images: iGPT's (section 2.3: joint loss; section 3.4:
    constant learning rate) with all labels and test images, then its `finetune_overrides`.

    The augmentation is that of the dataset if it has one, else that of `finetune_overrides`, else that of
    pre-training. The learning rate is a tenth of pre-training's, or the recipe's own; from scratch and after
    an earlier fine-tuning it is unchanged. A class token, if there is one, is what the class head reads.
    """
    optimizer = recipe.train.optimizer
    data = replace(recipe.data, train_on_validation=False, limit=None, labels_per_class=None, subset=0)
    tuned = recipe.updated(
        data=replace(data, patch_augment=NoPatchAugment()),
        finetune=FineTuneConfig(pool=default_pool(int(recipe.model.class_token))),
        steps=STEPS,
        optimizer=optimizer.for_finetuning(_rounded(LR_FACTOR * optimizer.lr)),
        schedule=ConstantSchedule(),
        evaluate_every=EVALUATE_EVERY,
        evaluate_images=None,
        num_test_images=None,
        checkpoint_every=EVALUATE_EVERY,
    )
    tuned = _override(tuned, parse(recipe.finetune_overrides))
    augment = finetune_augmentation(source)
    if augment is not None:
        tuned = tuned.updated(data=replace(tuned.data, augment=augment))
    if from_scratch or recipe.finetune is not None:
        return tuned.updated(optimizer=replace(tuned.train.optimizer, lr=optimizer.lr))
    return tuned


def _rounded(lr: float) -> float:
    """Return 0.0003 for 0.1 * 0.003, which is 0.00030000000000000003."""
    return float(f"{lr:.12g}")


def _override(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """Return the changed recipe; the names of `FineTuneConfig` go without their group."""
    return override(recipe, {_full_path(path, recipe): value for path, value in changes.items()})


def _full_path(path: str, recipe: Recipe) -> str:
    """Return the path of a fine-tuning setting; a misspelled one counts as one, for a helpful error."""
    known = any(path in each.split(".") for each in flatten(to_dict(recipe)))
    misspelled = not known and "." not in path and get_close_matches(path, FINETUNE_FIELDS)
    own = path in FINETUNE_FIELDS or misspelled
    return f"finetune.{path}" if own else path


def _check_same_network(recipe: Recipe, pretrained: Recipe) -> None:
    """Raises ValueError for a changed setting of the pre-trained network."""
    for path, (own, _) in changed_settings(NETWORK, recipe, pretrained).items():
        raise ValueError(
            f"{path.removesuffix('.kind')} cannot be changed: the pre-trained network has {json.dumps(own)}; "
            "fine-tune a recipe by its name to start from scratch"
        )


def _check_parts(recipe: Recipe) -> None:
    """Raises ValueError for parts that do not go together, those of fine-tuning among them."""
    network = recipe.outline()
    if recipe.finetune is not None:
        FineTuneModel(PretrainModel(network, recipe.objective), recipe.model.width, 2, recipe.finetune)
