"""Costs of a recipe, and results of `recipe`, without PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from json import dumps
from typing import Any, NamedTuple

from isopix.core.table import Table
from isopix.storage.result import Result

UNCHANGED = "recipe"  # the source of values of the recipe


class ModelCost(NamedTuple):
    """Number of parameters, and FLOPs per image."""

    parameters: int
    forward_flops: int
    training_flops: int


class TrainingMemory(NamedTuple):
    """Bytes that training needs: for weights, gradients and optimizer moments; for what a step derives from
    the weights alone, such as their 16-bit copies; and for the activations of one image.
    """

    weight_bytes: int
    copy_bytes: int
    activation_bytes: int

    def step_bytes(self, batch_size: int) -> int:
        """Return the memory of one step over this many images."""
        return self.weight_bytes + self.copy_bytes + batch_size * self.activation_bytes


class RecipeList(Result):
    """The recipes with their descriptions, large families as one name pattern."""

    recipes: Mapping[str, str]

    def tables(self) -> list[Table]:
        """Return a row for each."""
        return [Table("Recipes", ["name", "description"], list(self.recipes.items()))]


@dataclass(frozen=True)
class Setting:
    """One setting of a resolved recipe: its value, where that comes from, the value in the unchanged recipe,
    None also where it has no such setting, and what it means.
    """

    path: str
    value: Any
    source: str
    default: Any
    meaning: str

    @property
    def assignment(self) -> str:
        """The setting as `path=value`, with the source of a changed value."""
        text = f"{self.path}={dumps(self.value)}"
        if self.source != UNCHANGED:
            text += f"  ({self.source}; recipe: {dumps(self.default)})"
        return text.replace('"', "")


class RecipeSettings(Result):
    """Every setting of a recipe, with changed settings."""

    recipe: str
    settings: tuple[Setting, ...]

    def tables(self) -> list[Table]:
        """Return the settings of each group."""
        groups = groupby(self.settings, key=lambda each: each.path.partition(".")[0])
        return [
            Table(group, ["setting", "meaning"], [(each.assignment, each.meaning) for each in own])
            for group, own in groups
        ]

    def notes(self) -> list[str]:
        """Return how settings are written."""
        return [
            "On the command line the end of a name is enough: depth=4 is model.depth=4.",
            *super().notes(),
        ]
