"""Fine-tuning settings and initial weights, from a run folder or the name of a recipe."""

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
from isopix.data.patch_augment import NoPatchAugment
from isopix.finetuning.classifier import FineTuneModel
from isopix.finetuning.config import FineTuneConfig
from isopix.model.network import Network
from isopix.model.pool import Pool
from isopix.model.pos_embed_resize import resize_pos_embed
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.runs.load import LoadedRun, load_run
from isopix.runs.pretrain import InitialWeights
from isopix.train.optim import Adam, OptimizerSpec
from isopix.train.schedule import ConstantSchedule

STEPS, EVALUATE_EVERY = 1000, 50
LR_FACTOR = 0.1  # of pre-training's learning rate; often the best (iGPT section 4.4)
PATCHFORMER_LR = 2e-4  # pre-training's, and one of the four that PatchFormer section 2.2 tries
PATCHFORMER_DROPOUT = 0.1  # our choice; PatchFormer section 2.2 uses dropout and gives no rate
FINETUNE_FIELDS = tuple(each.name for each in fields(FineTuneConfig))


class FineTuneStart(NamedTuple):
    """What to train, and the weights to start from; None: from scratch."""

    recipe: Recipe
    initial: InitialWeights | None


def prepare_finetune(
    source: str,
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Sequence[str] = (),
) -> FineTuneStart:
    """Return how to fine-tune the run folder `source`, or the recipe of that name from scratch.

    The names of `FineTuneConfig` go without their group (`generative_weight=1`), even where other groups have
    such a setting. With another `data.size` position embeddings are interpolated. Raises ValueError if
    `source` is neither a folder nor a recipe, and for wrong settings.
    """
    loaded = load_run(Path(source), device=torch.device("cpu")) if Path(source).exists() else None
    base = loaded.recipe if loaded else registry.find(source)
    recipe = finetune_recipe(base, from_scratch=loaded is None)
    given = {path: value for path, value in (options or {}).items() if value is not None}
    for changes in (flatten(read_values(file)) if file else {}, given, parse(assignments)):
        recipe = override(
            recipe, {_full_path(path): value for path, value in registry.sized(changes).items()}
        )
    if loaded is not None:
        _check_same_network(recipe, loaded.recipe)
    _check_parts(recipe)
    if loaded is None:
        return FineTuneStart(recipe, None)
    provenance = {"pretrained": {"run": str(Path(source).resolve()), "step": loaded.step}}
    return FineTuneStart(recipe, InitialWeights(_resized(recipe, loaded), provenance))


def finetune_recipe(recipe: Recipe, *, from_scratch: bool) -> Recipe:
    """Return the fine-tuning recipe (iGPT section 2.3): constant learning rate, reflect-padded crops and
    flips, all labels.

    The learning rate is a tenth of pre-training's, a PatchFormer's own, or unchanged from scratch and after
    an earlier fine-tuning. A class token, if there is one, is what the class head reads.
    """
    peak = recipe.train.optimizer.lr
    lr = PATCHFORMER_LR if recipe.objective.corruption.drops_tokens else LR_FACTOR * peak
    keep = from_scratch or recipe.finetune is not None
    data = replace(recipe.data, train_on_validation=False, limit=None, labels_per_class=None, subset=0)
    return recipe.updated(
        data=replace(data, augment=PadCropFlip(), patch_augment=NoPatchAugment()),
        finetune=_default_config(recipe),
        steps=STEPS,
        optimizer=replace(_default_optimizer(recipe.train.optimizer), lr=peak if keep else lr),
        schedule=ConstantSchedule(),
        evaluate_every=EVALUATE_EVERY,
        evaluate_images=max(recipe.train.evaluate_images, 1000),
        checkpoint_every=EVALUATE_EVERY,
    )


def _default_config(recipe: Recipe) -> FineTuneConfig:
    """Return the joint loss of iGPT section 2.4; networks of patches leave L_GEN out.

    ViT masks nothing (section 3.2). A network that drops masked tokens has a tenth of them dropped
    (PatchFormer section 2.2).
    """
    pool: Pool = "first" if recipe.model.class_token else "mean"
    corruption = recipe.objective.corruption.kind
    if corruption == "mask_token":
        return FineTuneConfig(generative_weight=0.0, pool=pool, mask_ratio=0.0, mask_at_eval=False)
    if corruption != "drop":
        return FineTuneConfig(pool=pool)
    return FineTuneConfig(
        generative_weight=0.0,
        pool=pool,
        residual_block=True,
        dropout=PATCHFORMER_DROPOUT,
        label_smoothing=0.01,
        mask_ratio=0.1,
        mask_at_eval=False,
    )


def _default_optimizer(optimizer: OptimizerSpec) -> OptimizerSpec:
    """Return iGPT's Adam for an Adam with any settings, and other optimizers unchanged (PatchFormer section
    2.2).
    """
    return Adam() if isinstance(optimizer, Adam) else optimizer


def _full_path(path: str) -> str:
    """Return the path of a fine-tuning setting; a misspelled one counts as one, for a helpful error."""
    known = path.partition(".")[0] in {each.name for each in fields(Recipe)}
    own = path in FINETUNE_FIELDS or (not known and get_close_matches(path, FINETUNE_FIELDS))
    return f"finetune.{path}" if own else path


def _check_same_network(recipe: Recipe, pretrained: Recipe) -> None:
    """Raises ValueError for a changed setting of the pre-trained network."""
    given = flatten(to_dict(recipe))
    for path, value in flatten(to_dict(pretrained)).items():
        if path.partition(".")[0] in NETWORK and given.get(path) != value:
            raise ValueError(
                f"{path.removesuffix('.kind')} cannot be changed: the pre-trained network has "
                f"{json.dumps(value)}; fine-tune a recipe by its name to start from scratch"
            )


def _check_parts(recipe: Recipe) -> None:
    """Raises ValueError for parts that do not go together, those of fine-tuning among them."""
    codec = recipe.model.codec.placeholder(recipe.grid)
    with torch.device("meta"):
        network = recipe.assemble(codec)
    if recipe.finetune is not None:
        FineTuneModel(PretrainModel(network, recipe.objective), recipe.model.width, 2, recipe.finetune)


def _resized(recipe: Recipe, loaded: LoadedRun) -> Network:
    """Return the network, with interpolated position embeddings for another grid (ViT section 3.2).

    Raises ValueError if a block has weights per position.
    """
    if recipe.grid == loaded.recipe.grid:
        return loaded.network
    mode = (recipe.finetune or FineTuneConfig()).interpolation
    tensors = resize_pos_embed(loaded.network.tensors(), loaded.recipe.grid, recipe.grid, mode)
    with torch.device("meta"):
        network = recipe.assemble(recipe.model.codec.from_state(tensors, recipe.grid))
    network.load(tensors)
    return network
