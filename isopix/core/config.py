"""Settings: frozen dataclasses to and from files, and changed by the path of a field.

`@spec` makes the dataclass; a union annotation of specs is their registry, told apart by a `kind` field.
pydantic checks and converts values; the walk here finds wrong names first, so that every error says which
ones are right.
"""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def spec(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass: the only form that settings take in this package."""
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def to_dict(settings: object) -> dict[str, Any]:
    """Plain nested values, ready for JSON."""
    return cast("dict[str, Any]", TypeAdapter(type(settings)).dump_python(settings, mode="json"))


def from_dict(kind: type[T], values: Mapping[str, Any]) -> T:
    """Settings of that kind; raises ValueError that names the wrong path or value, and the right ones."""
    _check_names(kind, values, ())
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise ValueError(_first(error)) from None


def read_values(path: Path) -> dict[str, Any]:
    """The nested values of a `.json`, `.yaml` or `.toml` file. Raises ValueError if it is missing or no
    such file.
    """
    parsers: dict[str, Callable[[str], Any]] = {
        ".json": json.loads,
        ".yaml": yaml.safe_load,
        ".yml": yaml.safe_load,
        ".toml": tomllib.loads,
    }
    if path.suffix not in parsers:
        raise ValueError(f"settings file {path} ends in '{path.suffix}'; allowed: {', '.join(parsers)}")
    if not path.is_file():
        raise ValueError(f"settings file {path} does not exist")
    try:
        values = parsers[path.suffix](path.read_text())
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"settings file {path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"settings file {path} holds no table of settings")
    return values


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """`["depth=4", "block.heads=2"]` to {"depth": 4, "block.heads": 2}; raises ValueError on a word
    without `=`.
    """
    changes = {}
    for word in assignments:
        path, equals, value = word.partition("=")
        if not equals or not path:
            raise ValueError(f"'{word}' is not a setting; write path=value, as in depth=4 or block.heads=2")
        changes[path] = _value(path, value)
    return changes


def _value(path: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"the value of '{path}' cannot be read: {text!r}") from None


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by path: {"block": {"heads": 2}} to {"block.heads": 2}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def change(settings: T, changes: Mapping[str, Any]) -> T:
    """The same settings with some fields changed, by path. A changed `kind` starts that part from its
    defaults.
    """
    values = to_dict(settings)
    for path, value in sorted(changes.items(), key=lambda item: not item[0].endswith("kind")):
        *parents, name = path.split(".")
        part = values
        for depth, parent in enumerate(parents):
            if not isinstance(part.get(parent), dict):
                _check_names(type(settings), _nest(parents[: depth + 1], {}), ())
                raise ValueError(
                    f"'{'.'.join(parents[: depth + 1])}' has no settings inside; it is one value"
                )
            part = part[parent]
        if name == "kind" and part.get("kind") != value:
            part.clear()
        part[name] = value
    return from_dict(type(settings), values)


def _nest(parents: list[str], leaf: dict[str, Any]) -> dict[str, Any]:
    for parent in reversed(parents):
        leaf = {parent: leaf}
    return leaf


def _check_names(kind: Any, values: Any, path: tuple[str, ...]) -> None:
    if not isinstance(values, Mapping):
        return
    chosen = _choose(kind, values, path)
    if chosen is None:
        return
    hints = get_type_hints(chosen)
    names = [item.name for item in dataclasses.fields(chosen)]
    for name, value in values.items():
        if name not in names:
            raise ValueError(_unknown(".".join((*path, str(name))), path, str(name), names))
        _check_names(hints[name], value, (*path, name))


def _unknown(full: str, path: tuple[str, ...], name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{'.'.join((*path, close[0]))}'? " if close else ""
    where = f"settings of {'.'.join(path)}" if path else "settings"
    return f"unknown setting '{full}'; {hint}{where}: {', '.join(names)}"


def _choose(kind: Any, values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The dataclass among the members of a union that `kind` names; None where there is no dataclass."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    specs = [member for member in members if dataclasses.is_dataclass(member)]
    if len(specs) <= 1 and "kind" not in values:
        return specs[0] if specs else None
    kinds = {getattr(member, "kind", member.__name__): member for member in specs if isinstance(member, type)}
    if values.get("kind") not in kinds:
        full = ".".join((*path, "kind"))
        raise ValueError(f"'{full}' is '{values.get('kind')}'; known: {', '.join(sorted(kinds))}")
    return kinds[values["kind"]]


def _first(error: ValidationError) -> str:
    """The first complaint in one line: where, what was given, what is allowed."""
    problem = error.errors()[0]
    words = [str(part) for part in problem["loc"]]
    path = ".".join(word for word in words if not word[:1].isupper())
    message = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = problem.get("input")
    shown = "" if isinstance(given, Mapping) or dataclasses.is_dataclass(given) else f" (given: {given!r})"
    return f"{path}: {message}{shown}" if path else message
