"""Settings describe themselves."""

import dataclasses

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.config import config
from isopix.core.descriptions import descriptions
from isopix.core.registry import kinds, nouns
from isopix.data.dataset import DataConfig
from isopix.finetuning.config import FineTuneConfig
from isopix.model.spec import ModelSpec
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
