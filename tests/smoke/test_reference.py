"""The generated reference has every command, setting, part and Python name; it needs no Sphinx."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import isopix
from isopix import parts
from isopix.core.config import to_dict
from isopix.core.overrides import flatten
from isopix.recipes import registry
from isopix.verbs import VERBS

SOURCE = Path(__file__).parents[2] / "docs" / "reference_pages.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    located = importlib.util.spec_from_file_location("reference_pages", SOURCE)
    assert located is not None
    assert located.loader is not None
    module = importlib.util.module_from_spec(located)
    located.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(reference: ModuleType) -> dict[str, str]:
    return dict(reference.pages())


def test_every_command_has_a_page_with_its_options(pages: dict[str, str]) -> None:
    assert {f"commands/{name.split()[0]}.md" for name in VERBS} == {
        name for name in pages if "commands/" in name
    }
    assert "--probe-every INT" in pages["commands/pretrain.md"]
    assert "$ isopix pretrain igpt.tiny" in pages["commands/pretrain.md"]


@pytest.mark.parametrize("recipe", sorted(registry.SINGLE))
def test_every_setting_of_every_recipe_is_described(recipe: str, pages: dict[str, str]) -> None:
    known = {line.split("`")[1] for line in pages["settings.md"].splitlines() if line.startswith("| `")}
    settings = flatten(to_dict(registry.find(recipe)))
    groups = ("model.", "data.", "train.", "objective.")
    paths = {path for path in settings if path.startswith(groups) and not path.endswith(".kind")}
    assert paths - known == set()


def test_every_part_and_name_is_there(pages: dict[str, str]) -> None:
    for noun, path in {
        "block": "model.block",
        "mask": "objective.mask",
        "optimizer": "train.optimizer",
    }.items():
        assert all(f"### {path}={kind}" in pages["settings.md"] for kind in parts.kinds(noun))
    names = set(isopix.__all__) - {"__version__", "parts"}
    assert all(f":: isopix.{name}\n" in pages["api.rst"] for name in names)


def test_code_in_docstrings_becomes_literals(reference: ModuleType) -> None:
    assert reference.rst("`a*b` takes *.md and import_") == "``a*b`` takes \\*.md and import\\_"
