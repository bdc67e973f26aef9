"""Parts register under their nouns, from the package and from files of users."""

import abc
from pathlib import Path

import pytest

from isopix.core import registry
from isopix.core.registry import Part, kinds, load_plugin, plugins, require_plugins


class Fruit(Part, noun="test_fruit"):
    """A noun of this test."""


class Solid(Part, noun="test_solid"):
    """A noun of this test whose parts must define a method."""

    @abc.abstractmethod
    def area(self) -> float: ...


IMPORTS = """
from isopix.core.registry import register
from tests.unit.core.test_registry import Fruit, Solid

"""


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of a test are no plugins of the runs of other tests."""
    monkeypatch.setattr(registry, "_PLUGINS", {})


def plugin(folder: Path, kind: str, name: str = "own.py") -> Path:
    path = folder / name
    path.write_text(f"{IMPORTS}@register('{kind}')\nclass Own(Fruit):\n    weight: int = 1\n")
    return path


def test_a_file_outside_the_package_registers_its_parts_once(tmp_path: Path) -> None:
    path = plugin(tmp_path, "pear")
    loaded = load_plugin(path)
    assert loaded.parts == ("test_fruit pear",)
    assert load_plugin(path) is loaded
    assert loaded in plugins()
    assert kinds("test_fruit")["pear"](weight=3).weight == 3
    path.write_text(path.read_text() + "# changed")
    with pytest.raises(ValueError, match="has changed since it was loaded"):
        load_plugin(path)
    with pytest.raises(ValueError, match=r"nowhere\.py is not a file"):
        load_plugin(tmp_path / "nowhere.py")


def test_what_a_run_needs_is_named_where_it_is_not_loaded(tmp_path: Path) -> None:
    loaded = load_plugin(plugin(tmp_path, "sloe"))
    assert require_plugins([loaded._asdict()]) == []
    other = {**loaded._asdict(), "sha256": "0" * 64, "parts": ["test_fruit sloe", "test_fruit rowan"]}
    with pytest.raises(ValueError, match=r"uses test_fruit rowan of plugin .*own.py \(SHA-256 000"):
        require_plugins([other])
    [note] = require_plugins([{**other, "parts": ["test_fruit sloe"]}])
    assert note.endswith(f"has changed since the run: SHA-256 000000000000 then, {loaded.sha256[:12]} now")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@register('disk')\nclass Disk(Solid):\n    pass", "class Disk .* does not define: area$"),
        ("x = 1", "registers no part"),
        ("def (", "cannot be imported: SyntaxError"),
        (2 * "@register('fig')\nclass One(Fruit):\n    pass\n", "'fig' is already registered by class One"),
        ("@register('fig')\n@register('date')\nclass Both(Fruit):\n    pass", "it cannot be 'fig' too$"),
        ("@register('fig')\nclass Fig(Fruit):\n    weight: 'Gram' = 3", "name 'Gram' is not defined$"),
        ("import sys\nsys.exit(3)", "cannot be imported: SystemExit: 3$"),
    ],
)
def test_a_mistake_in_a_plugin_is_one_line_and_registers_nothing(
    tmp_path: Path, body: str, message: str
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(IMPORTS + body)
    before = {noun: dict(kinds(noun)) for noun in ("test_fruit", "test_solid")}
    with pytest.raises(ValueError, match=message) as error:
        load_plugin(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert {noun: dict(kinds(noun)) for noun in before} == before


def test_a_noun_is_defined_once() -> None:
    """Otherwise a plugin would forget all parts of the package by one word."""
    with pytest.raises(TypeError, match="noun 'test_fruit' of Vegetable has a base class already"):

        class Vegetable(Part, noun="test_fruit"):
            pass
