"""What a training starts from: its recipe after all settings, and the weights of another run."""

import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from isopix.codecs.base import Codec
from isopix.core.config import to_dict
from isopix.core.overrides import changed_settings, override, parse
from isopix.core.text import command_line
from isopix.data.patch_augment import NoPatchAugment
from isopix.data.sources.base import DATASETS, require_known_source
from isopix.finetuning.classifier import FineTuneConfig, FineTuneModel
from isopix.model.network import Network
from isopix.model.positions import default_pool, resize_pos_embed
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.recipe import NETWORK, Recipe
from isopix.recipes.registry import affordable_evaluation, with_colors_of_file
from isopix.runs.load import LoadedRun, find_model, load_run, shipped_models, trained_hint
from isopix.runs.state import State
from isopix.train.config import ConstantSchedule

STEPS, EVALUATE_EVERY = 1000, 50
SOURCE = ("source", "data.source")  # how the setting is named
LR_FACTOR = 0.1  # of pre-training's learning rate; often the best (iGPT section 4.5)
FINETUNE_FIELDS = [each.name for each in fields(FineTuneConfig)]
# What the meaning of the weights depends on: the network, which codes it predicts, and what it is shown.
MEANING = ("model.", "objective.kind", "objective.corruption.")
NO_WEIGHTS = ("dropout", "drop_path")  # ends of settings of the network that may change

CPU = torch.device("cpu")
PathLike = str | os.PathLike[str]


class TrainingStart(NamedTuple):
    """What to train, the `run` whose network it starts from (None: from scratch), and where that is from."""

    recipe: Recipe
    run: LoadedRun | None = None
    provenance: Mapping[str, Any] = MappingProxyType({})  # for the environment of the run
    notes: tuple[str, ...] = ()  # for its log
    lr_origin: str = ""  # `search` or `search:LARGEST..SMALLEST` for a learning rate to search for

    def again(self) -> "TrainingStart":
        """Return a start with its own network, for one of several trainings: each changes it."""
        return self._replace(run=self.run and replace(self.run, network=deepcopy(self.run.network)))

    def untrained(self, codec: Codec) -> "TrainingStart":
        """Return a start from weights that are drawn by the seed, and have seen no images."""
        spec, notes = self.recipe.model.codec, [*self.notes]
        recipe, origin = self.recipe.updated(codec=spec.fitted(codec)), spec.provenance()
        if recipe != self.recipe:
            own = recipe.model.codec.label()
            notes.append(f"the images have too few colors for a {spec.label()}; a {own} is used")
            origin["given"] = to_dict(spec.with_absolute_paths())
        nothing = torch.zeros(0, dtype=torch.int64)
        run = LoadedRun(recipe, recipe.build(codec), State(step=0), seen=nothing)
        return TrainingStart(recipe, run, {"codec": origin} if origin else {}, tuple(notes))

    def settings(self) -> dict[str, Any]:
        return given_settings(self.recipe, self.provenance)


def given_settings(recipe: Recipe, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings before the codec was fitted, and the origin of the weights."""
    settings = to_dict(with_absolute_paths(recipe)) | {"pretrained": provenance.get("pretrained")}
    settings["model"]["codec"] = (provenance.get("codec") or {}).get("given", settings["model"]["codec"])
    return settings


def prepare_pretrain(
    recipe: str | Recipe | None,
    settings: Sequence[str] = (),
    *,
    weights: PathLike | None = None,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
) -> TrainingStart:
    """Return how to pre-train a recipe, from scratch or from `weights`, with their codec and recipe."""
    if recipe in shipped_models():
        command = command_line("pretrain", "--from", recipe, "--out", "OUT")
        raise ValueError(f"{recipe} is a trained model, not a recipe; to train it further: {command}")
    loaded = None
    if weights is not None:
        weights = find_model(Path(weights))
        loaded = load_run(weights, device=CPU)
    base = _for_this_machine(loaded.recipe) if loaded and recipe is None else recipe
    if base is None:
        raise ValueError("pretrain needs the name of a recipe (isopix list recipes), or --from RUN")
    if loaded and recipe is None and loaded.recipe.finetune is not None:
        command = command_line("pretrain", "RECIPE", "--from", weights)
        raise ValueError(f"run {weights} is fine-tuned; name the recipe of pre-training: {command}")
    found = registry.resolve(base, file=file, options=options, settings=settings, search=True)
    lr_origin = found.origins.get(registry.LR, "")
    if weights is None or loaded is None:
        return TrainingStart(found.recipe, lr_origin=lr_origin)
    _check_same_network(MEANING, found.recipe, loaded.recipe)
    if recipe is None and "data.source" not in found.origins:
        require_known_source(found.recipe.data.source)
    return _start(found.recipe, weights, loaded)._replace(lr_origin=lr_origin)


def prepare_finetune(
    source: str,
    settings: Sequence[str] = (),
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    from_scratch: bool = False,
) -> TrainingStart:
    """Return how to fine-tune a run folder or trained model `source`, or to train its recipe `from_scratch`.

    The names of `FineTuneConfig` go without their group (`generative_weight=1`). With another `data.size`
    position embeddings are interpolated. Raises ValueError for a recipe without `from_scratch`.
    """
    folder, loaded = Path(source), None
    if folder.exists() or "/" in source or source in shipped_models():
        folder = find_model(folder)
        loaded = load_run(folder, device=CPU)
    elif source in registry.RECIPES and not from_scratch:
        raise ValueError(f"{source} is a recipe; {trained_hint(source)}give from_scratch to train it")
    base = _for_this_machine(loaded.recipe) if loaded else registry.find(source, "no run folder or recipe")
    loaded = None if from_scratch else loaded
    layers = [(origin, _full_names(each)) for origin, each in registry.layers(file, options, settings)]
    images = [changes[path] for _, changes in layers for path in SOURCE if path in changes]
    if loaded and not images:
        require_known_source(base.data.source)
    recipe = finetune_recipe(base, str([base.data.source, *images][-1]), from_scratch=loaded is None)
    recipe, given = registry.overridden(recipe, layers)
    if loaded is None:
        recipe = with_colors_of_file(recipe, given)
    else:
        _check_same_network(NETWORK, recipe, loaded.recipe)
    # All test images, so that runs of any length can be compared image by image.
    recipe = recipe.updated(**affordable_evaluation(recipe, ["num_test_images", *given]))
    if recipe.finetune is None:
        raise ValueError("finetune is null in these settings, which are of pre-training")
    model = PretrainModel(recipe.outline(), recipe.objective)
    FineTuneModel(model, recipe.model.width, 2, recipe.finetune)  # raises ValueError if parts do not fit
    start = _start(recipe, folder, loaded) if loaded else TrainingStart(recipe)
    return start._replace(lr_origin=given.get(registry.LR, ""))


def _for_this_machine(recipe: Recipe) -> Recipe:
    """Return the recipe of a run, compiled and in bf16 only where this machine does so by default."""
    precision = None if recipe.train.precision == "bf16" else recipe.train.precision
    compiled = None if recipe.train.compile else recipe.train.compile
    return recipe.updated(precision=precision, compile=compiled)


def finetune_recipe(recipe: Recipe, source: str, *, from_scratch: bool) -> Recipe:
    """Return the fine-tuning recipe: iGPT's (sections 2.3: joint loss; 3.4: constant lr), then its overrides.

    The augmentation is the dataset's, else that of `finetune_overrides`, else pre-training's. The learning
    rate is a tenth of pre-training's, or the recipe's own; from scratch it is unchanged, unless the optimizer
    is another one.
    """
    optimizer = recipe.train.optimizer
    data = replace(recipe.data, train_on_validation=False, limit=None, labels_per_class=None, subset=0)
    tuned = recipe.updated(
        data=replace(data, patch_augment=NoPatchAugment()),
        finetune=FineTuneConfig(pool=default_pool(int(recipe.model.class_token))),
        steps=STEPS,
        optimizer=optimizer.for_finetuning(float(f"{LR_FACTOR * optimizer.lr:.12g}")),  # 0.0003 for 0.003
        schedule=ConstantSchedule(),
        evaluate_every=EVALUATE_EVERY,
        evaluate_images=None,
        num_test_images=None,
        checkpoint_every=EVALUATE_EVERY,
        patience=None,
    )
    tuned = override(tuned, _full_names(parse(recipe.finetune_overrides)))
    augment = DATASETS[source].augment if source in DATASETS else None
    if augment is not None:
        tuned = tuned.updated(data=replace(tuned.data, augment=augment))
    same_optimizer = isinstance(tuned.train.optimizer, type(optimizer))
    if same_optimizer and (from_scratch or recipe.finetune is not None):
        return tuned.updated(optimizer=replace(tuned.train.optimizer, lr=optimizer.lr))
    return tuned


def _full_names(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"finetune.{path}" if path in FINETUNE_FIELDS else path: value for path, value in changes.items()}


def _start(recipe: Recipe, run: Path, loaded: LoadedRun) -> TrainingStart:
    start = replace(loaded, network=_resized(recipe, loaded))
    origin = {"pretrained": {"run": str(run.resolve()), "step": loaded.step}}
    return TrainingStart(recipe, start, origin, loaded.warnings)


def _check_same_network(groups: tuple[str, ...], recipe: Recipe, trained: Recipe) -> None:
    """Raise ValueError for changed settings of a trained network but dropout, which has no weights."""
    changed = [
        text
        for path, text in changed_settings(to_dict(trained), to_dict(recipe)).items()
        if path.startswith(groups) and not path.endswith(NO_WEIGHTS)
    ]
    if changed:
        raise ValueError(
            f"the weights have {'; '.join(changed)}; only the same network can start from them; another "
            "one starts from scratch, by the name of a recipe"
        )


def _resized(recipe: Recipe, loaded: LoadedRun) -> Network:
    """Return the network with interpolated position embeddings for another grid (ViT section 3.2)."""
    if recipe.grid == loaded.recipe.grid and recipe.model == loaded.recipe.model:
        return loaded.network
    mode = (recipe.finetune or FineTuneConfig()).interpolation
    tensors = resize_pos_embed(loaded.network.tensors(), loaded.recipe.grid, recipe.grid, mode)
    return recipe.restore(recipe.model.codec.from_state(tensors, recipe.grid), tensors)


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Return the recipe with absolute paths of files, so that it means the same in every folder."""
    data = recipe.data
    given = {"source": data.source, "labels_file": data.labels_file}
    paths = {name: Path(each).expanduser() for name, each in given.items() if isinstance(each, str)}
    files: dict[str, Any] = {name: str(each.resolve()) for name, each in paths.items() if each.exists()}
    return recipe.updated(data=replace(data, **files), codec=recipe.model.codec.with_absolute_paths())
