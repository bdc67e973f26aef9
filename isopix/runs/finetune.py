"""Fine-tuning: the settings and the weights that it starts from, whether a run or a recipe is named."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import torch

from isopix.core.config import to_dict
from isopix.core.overrides import flatten, override, parse, read_values
from isopix.data.augment import PadCropFlip
from isopix.data.patch_augment import NoNoise
from isopix.finetune.classifier import Classifier, Classify
from isopix.model.network import Network
from isopix.model.pool import Pool
from isopix.model.pos_embed_resize import resize_pos_embed
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.runs.load import Loaded, load
from isopix.runs.pretrain import Origin
from isopix.train.optim import Adam, OptimizerSpec
from isopix.train.schedule import Constant

STEPS, EVERY = 1000, 50
SLOWER = 0.1  # iGPT section 4.4: the best rate is often a tenth of pre-training's
PATCHFORMERS = 2e-4  # rate, of the four that PatchFormer section 2.2 tries; its pre-training's
DROPOUT = 0.1  # PatchFormer section 2.2 has dropout, and does not tell how much
OWN = tuple(each.name for each in fields(Classify))


class Beginning(NamedTuple):
    """What to train, and from which weights; None: from scratch."""

    recipe: Recipe
    origin: Origin | None


def begin(
    source: str,
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
) -> Beginning:
    """Fine-tuning of the run folder `source`, or from scratch of the recipe of that name.

    Settings of `Classify` may go by their own names (`generative_weight`) or whole paths
    (`finetune.generative_weight`). With another `data.size` positions are interpolated. Raises
    ValueError for what is neither folder nor recipe, and for wrong settings.
    """
    loaded = load(Path(source), device=torch.device("cpu")) if Path(source).exists() else None
    recipe = finetuned(loaded.recipe if loaded else registry.find(source), scratch=loaded is None)
    given = {path: value for path, value in (options or {}).items() if value is not None}
    for changes in (flatten(read_values(file)) if file else {}, given, parse(assignments)):
        recipe = override(recipe, {_whole(path): value for path, value in registry.sized(changes).items()})
    if loaded is not None:
        _refuse_other_network(recipe, loaded.recipe)
    _refuse_impossible(recipe)
    if loaded is None:
        return Beginning(recipe, None)
    return Beginning(recipe, Origin(_at_grid_of(recipe, loaded), _facts(Path(source), loaded)))


def finetuned(recipe: Recipe, *, scratch: bool) -> Recipe:
    """The recipe of a fine-tuning run (iGPT section 2.3): constant rate, a tenth of pre-training's, or a
    PatchFormer's own, unless from scratch or fine-tuned before; reflect-padded crops and flips, all labels. A
    class token, if there is one, is what is classified.
    """
    peak = recipe.train.optimizer.lr
    tuned = PATCHFORMERS if recipe.objective.corruption.drops_tokens else SLOWER * peak
    same = scratch or recipe.finetune is not None
    whole = replace(recipe.data, fold_back=False, limit=None, labels=None, subset=0)
    return recipe.updated(
        data=replace(whole, augment=PadCropFlip(), patch_augment=NoNoise()),
        finetune=_classified(recipe),
        steps=STEPS,
        optimizer=replace(_plain(recipe.train.optimizer), lr=peak if same else tuned),
        schedule=Constant(),
        evaluate_every=EVERY,
        evaluate_images=max(recipe.train.evaluate_images, 1000),
        checkpoint_every=EVERY,
    )


def _classified(recipe: Recipe) -> Classify:
    """Classes and codes together (iGPT section 2.4). Patches leave the decoder behind: of ViT's nothing is
    hidden (section 3.2), and of a network that never sees hidden ones a tenth (PatchFormer section 2.2).
    """
    pool: Pool = "first" if recipe.model.class_token else "mean"
    masking = recipe.objective.corruption.kind
    if masking == "mask_token":
        return Classify(generative_weight=0.0, pool=pool, hide=0.0, masked=False)
    if masking != "drop":
        return Classify(pool=pool)
    return Classify(
        generative_weight=0.0,
        pool=pool,
        residual_block=True,
        dropout=DROPOUT,
        smoothing=0.01,
        hide=0.1,
        masked=False,
    )


def _plain(optimizer: OptimizerSpec) -> OptimizerSpec:
    """iGPT's own Adam for whatever Adam there was; another optimizer stays as it is (PatchFormer section
    2.2).
    """
    return Adam() if isinstance(optimizer, Adam) else optimizer


def _whole(path: str) -> str:
    """The path from the recipe on; a misspelt name of fine-tuning counts as one, so that the error helps."""
    known = path.partition(".")[0] in {each.name for each in fields(Recipe)}
    own = path in OWN or (not known and get_close_matches(path, OWN))
    return f"finetune.{path}" if own else path


def _refuse_other_network(recipe: Recipe, own: Recipe) -> None:
    """Raises ValueError for a setting that the weights have decided already."""
    asked = flatten(to_dict(recipe))
    for path, value in flatten(to_dict(own)).items():
        if path.partition(".")[0] in NETWORK and asked.get(path) != value:
            raise ValueError(
                f"{path.removesuffix('.kind')} cannot be changed: the pre-trained network has "
                f"{json.dumps(value)}; fine-tune a recipe by its name to start from scratch"
            )


def _refuse_impossible(recipe: Recipe) -> None:
    """Raises ValueError for parts that do not go together, those of fine-tuning among them."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    with torch.device("meta"):
        network = recipe.assemble(codec)
    if recipe.finetune is not None:
        Classifier(PretrainModel(network, recipe.objective), recipe.model.width, 2, recipe.finetune)


def _at_grid_of(recipe: Recipe, loaded: Loaded) -> Network:
    """The network, or with another resolution one with its weights and its positions interpolated (ViT
    section 3.2). Raises ValueError if a block has weights for each position.
    """
    if recipe.grid == loaded.recipe.grid:
        return loaded.network
    mode = (recipe.finetune or Classify()).interpolation
    tensors = resize_pos_embed(loaded.network.tensors(), loaded.recipe.grid, recipe.grid, mode)
    with torch.device("meta"):
        network = recipe.assemble(recipe.model.codec.restore(tensors, recipe.grid))
    network.load(tensors)
    return network


def _facts(source: Path, loaded: Loaded) -> dict[str, Any]:
    return {"pretrained": {"run": str(source.resolve()), "step": loaded.step}}
