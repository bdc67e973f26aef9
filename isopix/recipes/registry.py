"""All recipes by name, and changed settings with where each comes from."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from isopix.core.choices import PositiveNumber
from isopix.core.config import meanings, to_dict, validated
from isopix.core.overrides import flatten, override, parse, read_values, resolve_setting
from isopix.core.registry import NAMES, import_modules, kinds, nouns
from isopix.core.text import did_you_mean
from isopix.data.dataset import DataConfig, Side
from isopix.data.load import load_dataset
from isopix.finetuning.classifier import FineTuneConfig
from isopix.model.spec import ModelSpec
from isopix.recipes import isotropic
from isopix.recipes.finetuning import FINETUNING
from isopix.recipes.recipe import PAPERS, Recipe
from isopix.recipes.results import SEARCH, UNCHANGED, Setting
from isopix.train.config import TrainConfig

Make = Callable[[], Recipe]
SIZE, SIDES = ("size", "data.size"), ("data.rows", "data.cols")
LR = "train.optimizer.lr"
# `seed` is not data.seed, which only its full path names.
ALIASES = {"seed": "train.seed", "learning_rate": LR, "data": "data.source"}
EPOCHS = "epochs"  # given instead of the steps, which it is once the images are known
SETTINGS_GROUPS = (Recipe, ModelSpec, DataConfig, TrainConfig, FineTuneConfig)
# By default a training evaluates as many images as take a fifth of its work.
EVALUATION_SHARE, TRAINING_PASSES = 0.2, 3  # a training image takes as long as three evaluated ones
FEWEST = 64  # images; with fewer, chance alone moves an accuracy by six points and more

import_modules("isopix.recipes")
SINGLE: dict[str, Make] = {
    f"{group}.{make.__name__}": make for group, makes in sorted(PAPERS.items()) for make in makes
}
# Families with a recipe for each block, encoding and depth, by the prefix of their names.
FAMILIES = {
    "isotropic.tiny-": isotropic.tiny,
    "isotropic.translated_digits-": isotropic.translated_digits,
    "isotropic.small-": isotropic.small,
    "isotropic.": isotropic.paper,
}
RECIPES: dict[str, Make] = SINGLE | {
    f"{prefix}{block}-{encoding}-{depth}": partial(family, block, encoding, depth)
    for prefix, family in FAMILIES.items()
    for block, encoding, depth in isotropic.CELLS
}


class Resolved(NamedTuple):
    """A recipe after all changes, the source of each changed value, by path, and the recipe before them."""

    recipe: Recipe
    origins: dict[str, str]
    unchanged: Recipe


def recipe(name: str) -> Callable[[Make], Make]:
    """Register a function without arguments as the recipe `name`: in a plugin, `@recipe("my.recipe")`."""

    def decorate(make: Make) -> Make:
        known = RECIPES.get(name)
        if known is not None and getattr(known, "__module__", None) != make.__module__:
            raise ValueError(f"recipe '{name}' is already registered")
        NAMES["recipe", name] = None
        RECIPES[name] = SINGLE[name] = make
        return make

    return decorate


def listing() -> dict[str, str]:
    """Return the docstrings of all single recipes by name, and of families by the pattern of their names."""
    families = {f"{prefix}BLOCK-ENCODING-DEPTH": family for prefix, family in FAMILIES.items()}
    return {name: " ".join((make.__doc__ or "").split()) for name, make in (SINGLE | families).items()}


def find(name: str, problem: str = "unknown recipe") -> Recipe:
    """Return the recipe of a name; raises ValueError, `problem` and the names that exist, for another."""
    if name in FINETUNING:
        raise ValueError(f"'{name}' is a recipe of fine-tuning: isopix finetune RUN --file {name}")
    if name not in RECIPES:
        hint = did_you_mean(name, RECIPES)
        raise ValueError(f"{problem} '{name}'; {hint}recipes: {', '.join(listing())}")
    return RECIPES[name]()


def resolve(
    recipe: str | Recipe,
    *,
    file: Path | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    search: bool = False,
) -> Resolved:
    """Return a recipe, changed by `layers`, with the colors of a palette file and affordable evaluation.

    Raises ValueError for a learning rate to search for, unless `search` is possible.
    """
    unchanged = find(recipe) if isinstance(recipe, str) else recipe
    changed, origins = overridden(unchanged, layers(file, options, settings))
    if not search:
        require_lr(origins.get(LR, ""))
    found = with_colors_of_file(changed, origins)
    if found != changed:
        origins["model.codec.num_colors"] = "palette file"
    fewer = affordable_evaluation(found, origins) if isinstance(recipe, str) else {}
    found = found.updated(**fewer)
    origins |= {f"train.{name}": "a fifth of the run" for name in fewer}
    remaining = flatten(to_dict(found))
    for path in sorted(origins.keys() - remaining.keys()):
        if not any(each.startswith(f"{path}.") for each in remaining):
            raise ValueError(f"'{path}' of the {origins[path]} is no longer a setting after later overrides")
    return Resolved(found, origins, unchanged)


def overridden(recipe: Recipe, layers: Iterable[tuple[str, dict[str, Any]]]) -> tuple[Recipe, dict[str, str]]:
    """Return the recipe with these changes, the later ones winning, and where each is from.

    A learning rate to search for changes nothing: it is from `search`.
    """
    origins, epochs = dict[str, str](), None
    for origin, changes in layers:
        epochs = changes.pop(EPOCHS, epochs)
        for path in [each for each, value in changes.items() if _is_search(each, value)]:
            origins[LR] = changes.pop(path)
        if changes:
            recipe = override(recipe, changes)
            values = to_dict(recipe)
            origins |= {resolve_setting(values, path): origin for path in changes}
    if epochs is None:
        return recipe, origins
    return with_epochs(recipe, epochs, origins), origins | {"train.steps": f"{epochs} epochs"}


def _is_search(path: str, value: object) -> bool:
    return f".{LR}".endswith(f".{path}") and str(value).startswith(SEARCH)


def require_lr(origin: str) -> None:
    """Raise ValueError for a learning rate that is to be searched for."""
    if origin.startswith(SEARCH):
        raise ValueError("lr=search chooses the learning rate of pretrain or finetune; set a number here")


def layers(
    file: Path | None, options: Mapping[str, Any] | None, settings: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the changes by a file or a recipe of fine-tuning, by options that are not None, and by
    `path=value` words, with origins.
    """
    published = None if file is None or file.exists() else FINETUNING.get(str(file))
    values = parse(published) if published else flatten(read_values(file)) if file else {}
    yield f"file {file}", full_names(values)
    yield "option", full_names({path: value for path, value in (options or {}).items() if value is not None})
    yield "command line", full_names(parse(settings))


def full_names(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes by the names of `ALIASES`, and with rows and columns for the side `data.size`."""
    changes = {ALIASES.get(path, path): value for path, value in changes.items()}
    rest = {path: value for path, value in changes.items() if path not in SIZE}
    given = {f"data.{path.removeprefix('data.')}" for path in rest}
    sizes = [validated(path, Side, value) for path, value in changes.items() if path in SIZE]
    sides = {side: value for value in sizes for side in SIDES}
    return {side: value for side, value in sides.items() if side not in given} | rest


def setting_paths(recipe: Recipe, settings: Sequence[str]) -> list[str]:
    """Return the full paths of the settings that these words change."""
    values, given = to_dict(recipe), full_names(parse(settings))
    return [resolve_setting(values, "train.steps" if path == EPOCHS else path) for path in given]


def with_epochs(recipe: Recipe, epochs: object, given: Collection[str]) -> Recipe:
    """Return the recipe with the fewest steps in which every training image is read `epochs` times.

    Raises ValueError if steps are `given`, too. The images are loaded, and cached for the training.
    """
    if any(path in ("steps", "train.steps") for path in given):
        raise ValueError("steps and epochs are both given; choose one")
    count = validated(EPOCHS, PositiveNumber, epochs) * len(load_dataset(recipe.data).train)
    return recipe.updated(steps=max(1, math.ceil(round(count / recipe.train.batch_size, 6))))


def settings(resolved: Resolved) -> list[Setting]:
    """Return every setting; those of a replaced part have its source."""
    texts, defaults = meanings(resolved.recipe), flatten(to_dict(resolved.unchanged))
    return [
        Setting(path, value, _origin(path, resolved.origins), defaults.get(path), texts.get(path, ""))
        for path, value in flatten(to_dict(resolved.recipe)).items()
    ]


def compared(saved: Recipe) -> Resolved:
    """Return the recipe of a run, changed where it differs from a known recipe that it names."""
    named = RECIPES[saved.name]() if saved.name in RECIPES else saved
    own, theirs = flatten(to_dict(saved)), flatten(to_dict(named))
    return Resolved(saved, {path: "run" for path in own if own[path] != theirs.get(path)}, named)


def _origin(path: str, origins: Mapping[str, str]) -> str:
    names = path.split(".")
    around = (".".join(names[:count]) for count in range(len(names), 0, -1))
    return next((origins[each] for each in around if each in origins), UNCHANGED)


def is_setting(path: str) -> bool:
    """Return whether a path of names may be a setting or the end of one: `depth`, `block.heads`."""
    classes = [*SETTINGS_GROUPS, *(part for noun in nouns() for part in kinds(noun).values())]
    names = {"kind", EPOCHS, *ALIASES, *SIZE}.union(each.name for cls in classes for each in fields(cls))
    return all(name in names for name in path.split("."))


def with_colors_of_file(recipe: Recipe, given: Collection[str]) -> Recipe:
    """Return the recipe with as many colors as its palette file has, unless they are `given`."""
    names = {path.rpartition(".")[2] for path in given}
    if "num_colors" in names or "palette_file" not in names:
        return recipe
    return recipe.updated(codec=recipe.model.codec.with_colors_of_file())


def affordable_evaluation(recipe: Recipe, given: Collection[str]) -> dict[str, int]:
    """Return fewer evaluation images by setting, at least 64, if they take over a fifth of the run."""
    config = recipe.train
    passes = EVALUATION_SHARE / (1 - EVALUATION_SHARE) * TRAINING_PASSES * config.steps * config.batch_size
    evaluations = 2 + (config.steps - 1) // config.evaluate_every  # the first and the last, too
    names = {path.rpartition(".")[2] for path in given}
    affordable = {"evaluate_images": passes / 2 / evaluations, "num_test_images": passes / 2}
    fewer = dict[str, int]()
    for name, images in affordable.items():
        configured, limit = getattr(config, name), max(FEWEST, int(images))
        if name not in names and (configured is None or configured > limit):
            fewer[name] = limit
    return fewer
