from pathlib import Path

import pytest

from isopix.core.config import config, from_dict, to_dict
from isopix.core.overrides import flatten, override, parse, read_values, resolve_setting
from isopix.core.registry import Part, register


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


def test_the_same_kind_keeps_its_settings() -> None:
    assert override(Picture(name="a", shape=Circle(radius=9)), {"shape.kind": "circle"}).shape == Circle(
        radius=9
    )


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
        ({"shape": "blob"}, "'shape.kind' is 'blob'; known: circle, ring, square"),
        ({"shape.kind": ["circle"]}, "'shape.kind' is ['circle']; known: circle, ring, square"),
        ({"shape.radius": True}, "shape.radius is true; it must be a number"),
        ({"shape.radius": float("inf")}, "shape.radius is inf; it must be a finite number"),
        ({"shape.radius": "nan"}, "shape.radius is 'nan'; it must be a finite number"),
        ({"shape.radius": 10**400}, "shape.radius is 1000000"),
        ({"shape.kind": "square", "shape.side": True}, "shape.side is true; it must be an integer"),
        ({"framed": "yes"}, "framed is 'yes'; it must be true or false"),
        ({"framed": 1}, "framed is 1; it must be true or false"),
        ({"framed": None}, "framed is null; it must be true or false"),
        ({"signed": 1}, "signed is 1; it must be true or false or null"),
        ({"frame": "wood"}, "'frame' is 'wood'; settings inside it: width"),
    ],
)
def test_wrong_names_and_values_are_told_in_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the message is compared below
        override(Picture(name="a"), changes)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [True, False, None])
def test_a_boolean_may_be_optional(value: bool | None) -> None:
    changed = override(Picture(name="a", signed=True), {"signed": value})
    assert changed.signed is value
    assert from_dict(Picture, to_dict(changed)) == changed


def test_words_become_values() -> None:
    words = ["a=1", "b.c=true", "d=null", "e=[1, 2]", "f=x=y", "g=1e-3", "h=", "i=.5", "j='1'", "k=-.inf"]
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
        "k": float("-inf"),
    }


@pytest.mark.parametrize(
    "word", ["yes", "no", "on", "off", "y", "010", "10:00", "0x10", "1_000", "2020-01-01"]
)
def test_only_what_yaml_1_2_calls_one_is_a_number_a_truth_or_a_date(word: str) -> None:
    assert parse([f"a={word}"]) == {"a": word}


def test_a_mapping_changes_what_it_names_and_nothing_else() -> None:
    assert parse(["a.b={c: 1, d: {e: 2}}", "a.b.c=3"]) == {"a.b.c": 3, "a.b.d.e": 2}


def test_a_number_of_five_thousand_digits_is_told_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"the value of 'a' cannot be read: '9{5000}'"):
        parse(["a=" + "9" * 5000])


@pytest.mark.parametrize("word", ["depth", "=3"])
def test_a_word_without_path_or_value_is_no_setting(word: str) -> None:
    with pytest.raises(ValueError, match=f"'{word}' is not a setting; write path=value"):
        parse([word])


@pytest.mark.parametrize("value", ["[1", "{a: b", "'x"])
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


def test_an_unknown_end_is_answered_with_the_full_path_of_the_closest() -> None:
    with pytest.raises(ValueError, match=r"unknown setting 'radios'; did you mean 'shape.radius'"):
        override(Picture(name="a"), {"radios": 1})


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
