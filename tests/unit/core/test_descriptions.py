"""Settings describe themselves."""

import dataclasses

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.config import config, to_dict
from isopix.core.descriptions import descriptions, meanings
from isopix.core.overrides import flatten
from isopix.core.registry import kinds, nouns
from isopix.data.dataset import DataConfig
from isopix.finetuning.config import FineTuneConfig
from isopix.model.spec import ModelSpec
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig

GROUPS = [Recipe, ModelSpec, DataConfig, TrainConfig, FineTuneConfig]
PARTS = [part for noun in nouns() for part in kinds(noun).values()]


@config
class Base:
    a: int = 1
    """The first
    setting."""
    b: int = 2
    """The second."""
    c: int = 3


@config
class Derived(Base):
    b: int = 4
    """Another second."""


def test_descriptions_are_the_docstrings_below_fields() -> None:
    assert descriptions(Base) == {"a": "The first\nsetting.", "b": "The second."}
    assert descriptions(Derived) == {"a": "The first\nsetting.", "b": "Another second."}


def test_every_setting_of_the_package_has_a_description_of_one_or_two_sentences() -> None:
    assert len(PARTS) > 50
    missing = [
        f"{cls.__name__}.{item.name}"
        for cls in [*GROUPS, *PARTS]
        if cls.__module__.startswith("isopix.")
        for item in dataclasses.fields(cls)
        if not descriptions(cls).get(item.name, "").endswith(".")
    ]
    assert missing == []


def test_meanings_are_by_path_and_a_kind_means_its_part() -> None:
    recipe = registry.find("igpt.tiny")
    found = meanings(recipe)
    assert found.keys() == flatten(to_dict(recipe)).keys()
    assert [path for path, text in found.items() if not text.endswith(".")] == []
    assert found["model.block.heads"] == "Attention heads; they divide the width."
    assert found["data.augment.kind"] == "The images unchanged."
    assert found["model.block.norm.kind"].endswith("(OpenAI's released iGPT).")
