"""The complete settings of a run."""

import json
import subprocess
import sys

ALL = """
import importlib, json, pkgutil, isopix
{imports}
from isopix.core.registry import kinds, nouns
print(json.dumps({{noun: sorted(kinds(noun)) for noun in nouns()}}))
"""
EVERY = "for each in pkgutil.walk_packages(isopix.__path__, 'isopix.'): importlib.import_module(each.name)"


def registered(imports: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", ALL.format(imports=imports)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_recipe_alone_knows_every_part_of_the_package() -> None:
    """Otherwise a run could be read by some commands only, those that happen to import its parts.

    Analyses are no part of a recipe; a file of one's own parts knows the package's.
    """
    alone, every = registered("import isopix.recipes.recipe"), registered(EVERY)
    analyses = every.pop("analysis")
    assert {noun: alone.get(noun) for noun in every} == every
    assert registered("import isopix.parts") == {**every, "analysis": analyses}
