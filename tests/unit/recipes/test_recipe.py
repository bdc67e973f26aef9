"""The complete settings of a run."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from isopix.core.overrides import override
from isopix.finetuning.config import FineTuneConfig
from isopix.recipes import registry
from isopix.runs.finetune import finetune_recipe
from isopix.train.optim import Adam

ALL = """
import importlib, json, pkgutil, sys, isopix
from isopix.core.registry import kinds, nouns
for imports in sys.argv[1:]:
    exec(imports)
    print(json.dumps({noun: sorted(kinds(noun)) for noun in nouns()}))
"""
EVERY = """
for each in pkgutil.walk_packages(isopix.__path__, 'isopix.'):
    if not each.name.startswith("isopix.studio"):  # it needs gradio, and has no parts
        importlib.import_module(each.name)
"""


def registered(*imports: str) -> list[dict[str, list[str]]]:
    """What is registered after each of these imports, one after another in a process of their own."""
    done = subprocess.run([sys.executable, "-c", ALL, *imports], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.integration
def test_a_recipe_alone_knows_every_part_of_the_package() -> None:
    """Otherwise a run could be read by some commands only, those that happen to import its parts.

    Analyses are no part of a recipe; a file of one's own parts knows the package's.
    """
    alone, every = registered("import isopix.recipes.recipe", EVERY)
    analyses = every.pop("analysis")
    assert {noun: alone.get(noun) for noun in every} == every
    assert registered("import isopix.parts") == [{**every, "analysis": analyses}]


def test_a_recipe_states_how_it_is_fine_tuned_and_no_part_of_it_decides() -> None:
    own = replace(registry.find("igpt.digits_bert"), finetune_overrides=("dropout=0.2", "lr=0.5"))
    dropping = override(own, {"objective.corruption": "drop", "class_token": True})
    for recipe, pool in ((own, "mean"), (dropping, "first")):
        tuned = finetune_recipe(recipe, "digits", from_scratch=False)
        assert tuned.finetune == FineTuneConfig(dropout=0.2, pool=pool)
        assert tuned.train.optimizer == Adam(lr=0.5)
        assert tuned.pool == tuned.finetune.pool
    assert finetune_recipe(own, "digits", from_scratch=True).train.optimizer.lr == own.train.optimizer.lr
    for path in ("pool", "finetune.pool"):
        chosen = replace(dropping, finetune_overrides=(f"{path}=mean",))
        assert chosen.pool == finetune_recipe(chosen, "digits", from_scratch=False).pool == "mean"
    assert dropping.pool == finetune_recipe(dropping, "digits", from_scratch=False).pool == "first"
    wrong = replace(own, finetune_overrides=("dropuot=0.2",))
    with pytest.raises(ValueError, match=r"did you mean 'finetune\.dropout'"):
        finetune_recipe(wrong, "digits", from_scratch=False)
