"""Settings files are small tables with names as keys; anything else is refused in one line."""

from pathlib import Path

import pytest

from isopix.core.overrides import read_values


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "10: 1", "has the key 10; keys are names of settings"),
        ("a.yaml", "a: {b: [{null: 1}]}", "has the key None; keys are names of settings"),
        ("a.json", '{"a": ' * 60 + "1" + "}" * 60, "is nested deeper than 50 levels"),
        ("a.json", '{"a": ' + "[" * 10**5, "cannot be read: "),
        ("a.yaml", "a: " + "[" * 10**5, "cannot be read: it is nested deeper than 50 levels"),
        ("a.toml", "a." * 10**4 + "a = 1", "cannot be read: it has a key of more than 50 parts"),
        ("a.toml", "a = " + "[" * 10**4, "cannot be read: maximum recursion depth exceeded"),
        ("a.toml", "a = " + "[" * 10**5, "cannot be read: maximum recursion depth exceeded"),
        ("a.toml", "x" * 10**5 + " \t" * 10**4, "cannot be read: "),
        ("a.yaml", "a: " + "x" * 2**18, "has 262,147 bytes; at most 262,144 are read"),
        ("a.yaml", "[1, 2]", "has no table of settings"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        read_values(tmp_path / name)
    assert str(caught.value).startswith(f"settings file {tmp_path / name} {message}")


def test_nested_tables_and_lists_are_read(tmp_path: Path) -> None:
    floats = ", ".join(["0.5"] * 200)
    (tmp_path / "a.toml").write_text(f'a.b.c = [[1, 2], ["x.y.z"]]\nh = [{floats}]\n[d."e.f"]\ng = 0.5')
    assert read_values(tmp_path / "a.toml") == {
        "a": {"b": {"c": [[1, 2], ["x.y.z"]]}},
        "h": [0.5] * 200,
        "d": {"e.f": {"g": 0.5}},
    }
