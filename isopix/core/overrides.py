"""Overrides: settings from files and words, each by its path or the shortest unambiguous end of it."""

import functools
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from isopix.core.config import default_part, from_dict, to_dict
from isopix.core.files import read_regular
from isopix.core.text import SETTING_SYNONYMS, did_you_mean, naming

T = TypeVar("T")
SIMILARITY = 0.7  # `stepz` resembles `steps`, not `stem`
SUFFIXES = (".yaml", ".yml", ".json")  # of settings files


class UnknownSettingError(ValueError):
    """A path that no setting has; `hint` suggests another one, or is empty."""

    def __init__(self, path: str, hint: str):
        super().__init__(f"unknown setting '{path}'; {hint}isopix show NAME lists all settings")
        self.path, self.hint = path, hint


def _parse_yaml(text: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        raise ValueError(f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}") from None


def read_values(path: Path) -> dict[str, Any]:
    """Return the nested values of a settings file. Raises ValueError for one that cannot be read."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"settings file {path} ends in '{path.suffix}'; allowed: {', '.join(SUFFIXES)}")
    with naming(f"settings file {path}"):
        read = json.loads if path.suffix == ".json" else _parse_yaml  # YAML allows no tabs
        values = read(read_regular(path).decode())
    if not isinstance(values, dict):
        raise ValueError(f"settings file {path} has no table of settings")
    return values


def parse(settings: Iterable[str]) -> dict[str, Any]:
    """`["depth=4", "block={heads: 2}"]` to {"depth": 4, "block.heads": 2}."""
    changes: dict[str, Any] = {}
    for word in settings:
        path, equals, text = word.partition("=")
        if not equals or not path:
            raise ValueError(
                f"'{word}' is not a setting; write name=value without spaces, as in depth=4 or block.heads=2"
            )
        try:
            changes |= flatten({path: text if text.startswith("*") else _parse_yaml(text)})
        except Exception:
            raise ValueError(f"the value of '{path}' cannot be read: {text!r}") from None
    return changes


def as_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    with suppress(Exception):
        if isinstance(value, str) and _parse_yaml(value) == value:
            return value
    return json.dumps(value, default=_as_json, ensure_ascii=False)


def _as_json(value: Any) -> Any:
    if is_dataclass(value):
        return to_dict(value)
    return value.item() if hasattr(value, "item") else os.fspath(value)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by path: {"block": {"heads": 2}} to {"block.heads": 2}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def changed_settings(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the saved and the given value of each setting that differs, as a text by its path."""
    before, after = flatten(saved), flatten(given)
    return {
        path: f"{path}={json.dumps(before.get(path))}, not {json.dumps(after.get(path))}"
        for path in before | after
        if before.get(path) != after.get(path)
    }


def override(settings: T, changes: Mapping[str, Any]) -> T:
    """Return the settings with some fields changed, by paths or the shortest unambiguous ends of them.

    A changed `kind` starts that part from its defaults; a kind may stand in place of a part.
    """
    values = to_dict(settings)
    for path, value in sorted(changes.items(), key=_order):
        full = resolve_setting(values, path)
        parent, _, name = full.rpartition(".")
        part = functools.reduce(dict.__getitem__, parent.split("."), values) if parent else values
        if not isinstance(part, dict):
            why = "it is null here" if part is None else "it is one value"
            raise ValueError(f"'{parent}' has no settings inside; {why}")
        inner = part.get(name)
        if isinstance(value, str) and isinstance(inner, dict) and "kind" in inner:
            parent, name, part = full, "kind", inner
        if name != "kind":
            part[name] = value
        elif part.get("kind") != value:
            given = default_part(type(settings), values, parent, value)
            part.clear()
            part.update(given)
    return from_dict(type(settings), values)


def resolve_setting(values: Mapping[str, Any], path: str) -> str:
    """Return the full path of a setting from any end that only one has; full paths win over longer ones."""
    every = list(
        dict.fromkeys(end for full in flatten(values) for end in accumulate(full.split("."), "{}.{}".format))
    )
    if path in every:
        return path
    found = [full for full in every if full.endswith(f".{path}")]
    if len(found) > 1:
        raise ValueError(f"setting '{path}' is ambiguous; it could be {', '.join(found)}")
    if found:
        return found[0]
    parent, _, name = path.rpartition(".")
    owner = resolve_setting(values, parent) if parent else ""
    if owner in every:
        return f"{owner}.{name}"
    word = path.replace("-", "_")
    ends = {full.rpartition(".")[2]: full for full in reversed(every)} | dict(zip(every, every, strict=True))
    hint = did_you_mean(SETTING_SYNONYMS.get(word, word), ends, similarity=SIMILARITY, shown=ends.__getitem__)
    raise UnknownSettingError(path, hint)


def _order(item: tuple[str, Any]) -> tuple[bool, int]:
    """Kinds before the settings inside them, the outer ones first."""
    path, value = item
    return not (path.endswith("kind") or isinstance(value, str)), path.count(".")
