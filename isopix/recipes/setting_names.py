"""The names of all settings, those of all registered parts included."""

import dataclasses

from isopix.core.registry import kinds, nouns
from isopix.data.dataset import DataConfig
from isopix.finetuning.config import FineTuneConfig
from isopix.model.spec import ModelSpec
from isopix.recipes.recipe import Recipe
from isopix.recipes.registry import ALIASES, SIZE
from isopix.train.config import TrainConfig

GROUPS = (Recipe, ModelSpec, DataConfig, TrainConfig, FineTuneConfig)


def is_setting(path: str) -> bool:
    """Return whether a path of names may be a setting or the end of one: `depth`, `block.heads`."""
    classes = [*GROUPS, *(part for noun in nouns() for part in kinds(noun).values())]
    names = {item.name for cls in classes for item in dataclasses.fields(cls)} | {"kind", *ALIASES, *SIZE}
    return all(name in names for name in path.split("."))
