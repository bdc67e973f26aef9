"""Settings: to and from plain values, changed by the ends of their paths, checked in one line, described."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.choices import Probability, Range
from isopix.core.config import config, descriptions, from_dict, meanings, to_dict
from isopix.core.overrides import flatten, override, parse, read_values
from isopix.core.registry import Part, kinds, nouns, register
from isopix.data.dataset import DataConfig
from isopix.finetuning.classifier import FineTuneConfig
from isopix.model.spec import ModelSpec
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from tests.unit.data.refusal import refusal


class Shape(Part, noun="test_shape"):
    """A noun of this test."""


@register("circle")
class Circle(Shape):
    radius: float = 1.0


@register("square")
class Square(Shape):
    side: int = 2


@register("ring")
class Ring(Shape):
    inner: Shape = Circle()
    holes: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.inner, Square) != (self.holes == 2):
            raise ValueError("a square needs two holes")


@config
class Frame:
    width: int = 1


@config
class Picture:
    name: str
    shape: Shape = Circle()
    note: str | None = None
    sizes: tuple[int, ...] = (1, 2)
    framed: bool = False
    frame: Frame = Frame()
    others: tuple[Shape, ...] = ()
    share: Probability = 1.0
    open: Annotated[float, Range(above=0, below=1)] = 0.5


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shape.radius": "2.5", "sizes": [3]}, Picture(name="a", shape=Circle(radius=2.5), sizes=(3,))),
        ({"radius": 3.0}, Picture(name="a", shape=Circle(radius=3.0))),
        ({"shape.side": 5, "shape.kind": "square"}, Picture(name="a", shape=Square(side=5))),
        ({"side": 5, "shape": "square"}, Picture(name="a", shape=Square(side=5))),
        ({"shape": "square", "shape.side": 5}, Picture(name="a", shape=Square(side=5))),
        (
            {"shape": "ring", "shape.inner": "square", "holes": 2, "side": 4},
            Picture(name="a", shape=Ring(inner=Square(side=4), holes=2)),
        ),
        (
            {"others": ["square", {"kind": "circle", "radius": 2}]},
            Picture(name="a", others=(Square(), Circle(radius=2.0))),
        ),
    ],
)
def test_changes_reach_inside_and_another_kind_starts_from_its_defaults(
    changes: dict[str, object], expected: Picture
) -> None:
    picture = Picture(name="a")
    assert override(picture, changes) == from_dict(Picture, to_dict(expected)) == expected
    assert picture == Picture(name="a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nam": "b"}, "unknown setting 'nam'; did you mean 'name'? isopix show NAME lists all"),
        ({"shape.side": 1}, "unknown setting 'shape.side'; settings of shape: kind, radius"),
        ({"shape.kind": "blob"}, "'shape.kind' is 'blob'; known: circle, ring, square; others need"),
        ({"name.first": "b"}, "'name' has no settings inside; it is one value"),
        ({"frame": "wood"}, "'frame' is 'wood'; settings inside it: width"),
        ({"shape.radius": "wide"}, "shape.radius is 'wide'; it must be a valid number"),
        ({"shape.radius": "nan"}, "shape.radius is 'nan'; it must be a finite number"),
        ({"framed": 1}, "framed is 1; it must be true or false"),
        ({"open": 1.0}, "open is 1.0; allowed: above 0 and below 1"),
    ],
)
def test_wrong_names_and_values_are_told_in_one_line(changes: dict[str, object], message: str) -> None:
    assert refusal(override, Picture(name="a"), changes).startswith(message)


def test_what_is_no_number_is_outside_every_range() -> None:
    assert refusal(lambda: Picture(name="a", share=math.nan)) == "share is nan; allowed: 0 to 1"


def test_words_become_values() -> None:
    words = ["a=1", "b.c=true", "d=null", "e=[1, 2]", "f=x=y", "g=1e-3", "h=", "i=.5", "j='1'", "k=yes"]
    words += ["l.m={c: 1, d: {e: 2}}", "l.m.c=3"]
    values = {"a": 1, "b.c": True, "d": None, "e": [1, 2], "f": "x=y", "g": 0.001, "h": None, "i": 0.5}
    assert parse(words) == {**values, "j": "1", "k": "yes", "l.m.c": 3, "l.m.d.e": 2}


@pytest.mark.parametrize("word", ["depth", "=3", "a=[1", "a={a: 1, a: 2}", "a=!!python/object:os.system x"])
def test_a_word_without_path_or_value_is_no_setting(word: str) -> None:
    assert any(text in refusal(parse, [word]) for text in ("is not a setting; write", "cannot be read: '"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{\n\t"x": {\n\t\t"y": 1\n\t}\n}', ""),
        ("a.yaml", "x:\n  y: 1\n", ""),
        ("a.ini", "", "ends in '.ini'; allowed: .yaml, .yml, .json"),
        ("a.json", "{", "cannot be read: "),
        ("a.yaml", "- 1", "has no table of settings"),
    ],
)
def test_files_of_every_kind_are_read_or_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    if message:
        assert message in refusal(read_values, tmp_path / name)
    else:
        assert flatten(read_values(tmp_path / name)) == {"x.y": 1}


def test_every_setting_of_the_package_has_a_description_of_one_or_two_sentences() -> None:
    parts = [part for noun in nouns() for part in kinds(noun).values()]
    assert len(parts) > 50
    missing = [
        f"{cls.__name__}.{item.name}"
        for cls in [Recipe, ModelSpec, DataConfig, TrainConfig, FineTuneConfig, *parts]
        if cls.__module__.startswith("isopix.")
        for item in dataclasses.fields(cls)
        if not descriptions(cls).get(item.name, "").endswith(".")
    ]
    assert missing == []


def test_a_part_without_a_docstring_has_no_meaning() -> None:
    assert meanings(Circle()) == {"kind": "", "radius": ""}
