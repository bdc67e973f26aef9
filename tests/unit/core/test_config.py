"""Settings: to and from plain values, changed by the ends of their paths, checked in one line, described."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated

import pytest

import isopix.parts  # noqa: F401  registers all parts
from isopix.core.choices import Count, Probability, Range
from isopix.core.config import config, descriptions, from_dict, meanings, to_dict
from isopix.core.overrides import flatten, override, parse, read_values, resolve_setting
from isopix.core.registry import Part, kinds, nouns, register
from isopix.data.dataset import DataConfig
from isopix.finetuning.config import FineTuneConfig
from isopix.model.spec import ModelSpec
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig


class Shape(Part, noun="test_shape"):
    """A noun of this test."""


@register("circle")
class Circle(Shape):
    radius: float = 1.0


@register("square")
class Square(Shape):
    side: int = 2


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
    signed: bool | None = None
    frame: Frame = Frame()
    others: tuple[Shape, ...] = ()


def test_a_part_of_no_stated_kind_is_of_its_defaults() -> None:
    assert from_dict(Picture, {"name": "a", "shape": {"radius": 3}}).shape == Circle(radius=3)


def test_there_and_back_is_the_identity() -> None:
    picture = Picture(name="a", shape=Square(side=3), note="x", sizes=(4,))
    assert from_dict(Picture, to_dict(picture)) == picture


def test_change_reaches_inside_and_leaves_the_original() -> None:
    picture = Picture(name="a")
    assert override(picture, {"shape.radius": "2.5", "sizes": [3]}) == Picture(
        name="a", shape=Circle(radius=2.5), sizes=(3,)
    )
    assert picture.shape == Circle()


def test_another_kind_starts_from_its_defaults() -> None:
    picture = Picture(name="a", shape=Circle(radius=9))
    assert override(picture, {"shape.side": 5, "shape.kind": "square"}).shape == Square(side=5)


@pytest.mark.parametrize("place", [1, -1])
def test_the_name_of_a_kind_stands_for_it_and_comes_before_what_is_inside(place: int) -> None:
    changes = {"shape": "square", "shape.side": 5}
    assert override(Picture(name="a"), dict([*changes.items()][::place])).shape == Square(side=5)
    assert from_dict(Picture, {"name": "a", "shape": "square"}).shape == Square()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"nam": "b"},
            "unknown setting 'nam'; did you mean 'name'? isopix recipe show NAME lists all",
        ),
        ({"shape.side": 1}, "unknown setting 'shape.side'; settings of shape: kind, radius"),
        ({"shape.kind": "blob"}, "'shape.kind' is 'blob'; known: circle, ring, square"),
        ({"name.first": "b"}, "'name' has no settings inside; it is one value"),
        (
            {"shapes.radius": 1},
            "unknown setting 'shapes'; did you mean 'shape'? isopix recipe show NAME lists all settings",
        ),
        ({"shape.radius": "wide"}, "shape.radius is 'wide'; it must be a number"),
        ({"shape": 3}, "'shape' is 3; known: circle, ring, square"),
        ({"shape.kind": ["circle"]}, "'shape.kind' is ['circle']; known: circle, ring, square"),
        ({"shape.radius": True}, "shape.radius is true; it must be a number"),
        ({"shape.radius": float("inf")}, "shape.radius is inf; it must be a finite number"),
        ({"shape.radius": "nan"}, "shape.radius is 'nan'; it must be a finite number"),
        ({"framed": "yes"}, "framed is 'yes'; it must be true or false"),
        ({"framed": 1}, "framed is 1; it must be true or false"),
        ({"signed": 1}, "signed is 1; it must be true or false or null"),
        ({"frame": "wood"}, "'frame' is 'wood'; settings inside it: width"),
    ],
)
def test_wrong_names_and_values_are_told_in_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the message is compared below
        override(Picture(name="a"), changes)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_words_become_values() -> None:
    words = ["a=1", "b.c=true", "d=null", "e=[1, 2]", "f=x=y", "g=1e-3", "h=", "i=.5", "j='1'", "k=yes"]
    assert parse(words) == {
        "a": 1,
        "b.c": True,
        "d": None,
        "e": [1, 2],
        "f": "x=y",
        "g": 0.001,
        "h": None,
        "i": 0.5,
        "j": "1",
        "k": "yes",
    }


def test_a_mapping_changes_what_it_names_and_nothing_else() -> None:
    assert parse(["a.b={c: 1, d: {e: 2}}", "a.b.c=3"]) == {"a.b.c": 3, "a.b.d.e": 2}


@pytest.mark.parametrize("word", ["depth", "=3"])
def test_a_word_without_path_or_value_is_no_setting(word: str) -> None:
    with pytest.raises(ValueError, match=f"'{word}' is not a setting; write path=value"):
        parse([word])


@pytest.mark.parametrize("value", ["[1", "{a: 1, a: 2}", "'x", "!!python/object:os.system x", "[" * 3000])
def test_a_value_that_cannot_be_read_is_named(value: str) -> None:
    with pytest.raises(ValueError, match="the value of 'depth' cannot be read"):
        parse([f"depth={value}"])


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", '{"x": {"y": 1}}'), ("a.yaml", "x:\n  y: 1\n"), ("a.toml", "[x]\ny = 1\n")],
)
def test_files_of_every_kind_read_alike(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert flatten(read_values(tmp_path / name)) == {"x.y": 1}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.ini", "", "ends in '.ini'; allowed: .json, .yaml, .yml, .toml"),
        ("a.json", "{", "cannot be read: "),
        ("a.yaml", "- 1", "has no table of settings"),
        ("a.yaml", "a: " + "[" * 10**5, "cannot be read: "),
        ("a.toml", "a = " + "[" * 10**4, "cannot be read: "),
        ("a.toml", None, "does not exist"),
    ],
)
def test_files_that_cannot_be_read_are_named(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match="settings file") as error:
        read_values(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_list_of_parts_is_read_by_their_kinds() -> None:
    values = {"name": "a", "others": ["square", {"kind": "circle", "radius": 2}]}
    picture = from_dict(Picture, values)
    assert picture.others == (Square(), Circle(radius=2.0))
    assert from_dict(Picture, to_dict(picture)) == picture


@pytest.mark.parametrize(("path", "value"), [("radius", 3.0), ("shape.radius", 3.0)])
def test_the_shortest_unambiguous_end_of_a_path_is_enough(path: str, value: float) -> None:
    assert override(Picture(name="a"), {path: value}).shape == Circle(radius=3.0)


def test_an_end_is_looked_up_among_the_settings_of_the_chosen_kind() -> None:
    assert override(Picture(name="a"), {"side": 5, "shape": "square"}).shape == Square(side=5)


def test_an_ambiguous_end_is_answered_with_the_paths_that_it_could_be() -> None:
    values = {"stem": {"channels": 1}, "head": {"channels": 2}, "width": 3, "deep": {"width": 4}}
    with pytest.raises(
        ValueError, match=r"'channels' is ambiguous; it could be stem.channels, head.channels"
    ):
        resolve_setting(values, "channels")
    assert resolve_setting(values, "width") == "width"


def test_a_required_setting_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="setting 'name' is missing; it has no default"):
        from_dict(Picture, {"note": "x"})


@register("ring")
class Ring(Shape):
    inner: Shape = Circle()
    holes: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.inner, Square) != (self.holes == 2):
            raise ValueError("a square needs two holes")


def test_kinds_that_only_fit_together_can_be_changed_together() -> None:
    changes = {"shape": "ring", "shape.inner": "square", "holes": 2, "side": 4}
    assert override(Picture(name="a"), changes).shape == Ring(inner=Square(side=4), holes=2)


@config
class Checked:
    count: Count = 1
    """The first
    setting."""
    share: Probability = 0.5
    """The second."""
    rate: Annotated[float, Range(above=0)] = 1.0
    limit: Count | None = None
    open: Annotated[float, Range(low=0, below=1)] = 0.0


@config
class Derived(Checked):
    share: Probability = 0.75
    """Another second."""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count is 0; allowed: 1 or more"),
        ({"share": 1.5}, "share is 1.5; allowed: 0 to 1"),
        ({"share": math.nan}, "share is nan; allowed: 0 to 1"),
        ({"rate": 0.0}, "rate is 0.0; allowed: above 0"),
        ({"limit": 0}, "limit is 0; allowed: 1 or more"),
        ({"open": 1.0}, "open is 1.0; allowed: 0 or more and below 1"),
    ],
)
def test_settings_outside_their_range_are_refused(values: dict[str, float], message: str) -> None:
    assert Checked(count=1, share=1.0, limit=None, open=0.0).share == 1
    with pytest.raises(ValueError) as error:  # noqa: PT011  the message is compared below
        Checked(**values)
    assert str(error.value) == message


def test_descriptions_are_the_docstrings_below_fields() -> None:
    assert descriptions(Checked) == {"count": "The first\nsetting.", "share": "The second."}
    assert descriptions(Derived) == {"count": "The first\nsetting.", "share": "Another second."}


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


def test_meanings_are_by_path_and_a_kind_means_its_part() -> None:
    recipe = registry.find("igpt.tiny")
    found = meanings(recipe)
    assert found.keys() == flatten(to_dict(recipe)).keys()
    assert [path for path, text in found.items() if not text.endswith(".")] == []
    assert found["model.block.heads"] == "Attention heads; they divide the width."
    assert found["data.augment.kind"] == "The images unchanged."
