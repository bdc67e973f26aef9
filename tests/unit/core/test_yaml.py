"""YAML: duplicate keys and other languages' objects are errors, and a declared version changes nothing."""

import pytest

from isopix.core.yaml import parse_yaml


@pytest.mark.parametrize(
    "text", ["{a: 1, a: 2}", "a: 1\na: 2", "!!python/object:os.system x", "!!bool x", "[" * 3000]
)
def test_invalid_documents_are_one_line_errors(text: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  any message will do
        parse_yaml(text)
    assert "\n" not in str(error.value)


def test_a_declared_version_changes_no_scalar() -> None:
    text = "[yes, 010, 0x10, 10:00, 1_000, 1e3, 1.5, ~, true]"
    expected = ["yes", "010", "0x10", "10:00", "1_000", 1000.0, 1.5, None, True]
    assert parse_yaml(text) == parse_yaml(f"%YAML 1.1\n---\n{text}") == expected


@pytest.mark.parametrize("text", ["a: &a [1]\nb: *a", "a: &a [*a]", "a: &a {b: 1}\nc:\n  <<: *a"])
def test_aliases_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it has aliases \(\*name\); write their values instead$"):
        parse_yaml(text)
