"""Settings: frozen dataclasses to and from files, and changed by the path of a field.

`@spec` makes the dataclass; a union annotation of specs is their registry, told apart by a `kind` field.
pydantic checks and converts values; the walk here comes first: it finds wrong names, so that every error says
which ones are right, and the values that pydantic would bend, such as true to 1.
"""

import dataclasses
import difflib
import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, cast, dataclass_transform, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from isopix.core.yaml import parse_yaml

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def spec(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass: the only form that settings take in this package."""
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def to_dict(settings: object) -> dict[str, Any]:
    """Plain nested values, ready for JSON."""
    return cast("dict[str, Any]", _adapter(cast("Any", type(settings))).dump_python(settings, mode="json"))


def from_dict(kind: type[T], values: Mapping[str, Any]) -> T:
    """Settings of that kind; raises ValueError that names the wrong path or value, and the right ones.

    Where one of several kinds is expected, its name alone stands for it with its defaults.
    """
    try:
        return _adapter(cast("Any", kind)).validate_python(_walk(kind, values, ()))
    except ValidationError as error:
        raise ValueError(_first(error)) from None


@cache
def _adapter(kind: Any) -> Any:
    """pydantic's checker of a kind, whose making takes far longer than its use."""
    return TypeAdapter(kind)


def read_values(path: Path) -> dict[str, Any]:
    """The nested values of a `.json`, `.yaml` or `.toml` file. Raises ValueError if it is missing or no
    such file.
    """
    parsers: dict[str, Callable[[str], Any]] = {
        ".json": json.loads,
        ".yaml": parse_yaml,
        ".yml": parse_yaml,
        ".toml": tomllib.loads,
    }
    if path.suffix not in parsers:
        raise ValueError(f"settings file {path} ends in '{path.suffix}'; allowed: {', '.join(parsers)}")
    if not path.is_file():
        raise ValueError(f"settings file {path} does not exist")
    try:
        values = parsers[path.suffix](path.read_text())
    except ValueError as error:
        raise ValueError(f"settings file {path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ValueError(f"settings file {path} holds no table of settings")
    return values


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """`["depth=4", "block={heads: 2}"]` to {"depth": 4, "block.heads": 2}; raises ValueError on a word
    without `=`.
    """
    changes: dict[str, Any] = {}
    for word in assignments:
        path, equals, value = word.partition("=")
        if not equals or not path:
            raise ValueError(f"'{word}' is not a setting; write path=value, as in depth=4 or block.heads=2")
        changes |= flatten({path: _value(path, value)})
    return changes


def _value(path: str, text: str) -> Any:
    try:
        return parse_yaml(text)
    except ValueError:
        raise ValueError(f"the value of '{path}' cannot be read: {text!r}") from None


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by path: {"block": {"heads": 2}} to {"block.heads": 2}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def change(settings: T, changes: Mapping[str, Any]) -> T:
    """The same settings with some fields changed, by path. A changed `kind` starts that part from its
    defaults; the name of a kind in the place of such a part is its `kind`.
    """
    values = to_dict(settings)
    for path, value in sorted(changes.items(), key=_turn):
        *parents, name = path.split(".")
        part = values
        for depth, parent in enumerate(parents):
            part = part.setdefault(parent, {})
            if not isinstance(part, dict):
                inside = ".".join(parents[: depth + 1])
                raise ValueError(f"'{inside}' has no settings inside; it is one value")
        inner = part.get(name)
        if isinstance(value, str) and isinstance(inner, dict) and "kind" in inner:
            part, name = inner, "kind"
        if name == "kind" and part.get("kind") != value:
            part.clear()
        part[name] = value
    return from_dict(type(settings), values)


def _turn(item: tuple[str, Any]) -> tuple[bool, int]:
    """Kinds before what stands inside them, the outer ones first."""
    path, value = item
    return not (path.endswith("kind") or isinstance(value, str)), path.count(".")


def _walk(kind: Any, values: Any, path: tuple[str, ...]) -> Any:
    """The values with `{"kind": name}` for each name of a kind. Raises ValueError for wrong names and for
    values that are bent.
    """
    specs = [member for member in _members(kind) if dataclasses.is_dataclass(member)]
    if not specs or (values is None and type(None) in _members(kind)):
        _check_value(kind, values, path)
        return values
    if isinstance(values, str) and all(hasattr(member, "kind") for member in specs):
        values = {"kind": values}
    chosen = _choose(specs, values, path)
    hints = get_type_hints(chosen)
    fields = {item.name: item for item in dataclasses.fields(chosen)}
    for name in values:
        if name not in fields:
            raise ValueError(_unknown(".".join((*path, str(name))), path, str(name), list(fields)))
    return {
        name: _walk(hints[name], _with_kind(fields[name], value), (*path, name))
        for name, value in values.items()
    }


def _with_kind(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """A part that does not say of which kind it is, is of its default's."""
    if not isinstance(value, Mapping) or "kind" in value:
        return value
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    kind = getattr(default, "kind", None)
    return value if kind is None else {"kind": kind, **value}


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _check_value(kind: Any, value: Any, path: tuple[str, ...]) -> None:
    """Raises ValueError for what pydantic takes and nobody means: true for 1, `yes` for true, infinity."""
    members, wrong = _members(kind), ""
    if isinstance(value, str) and any(value in get_args(member) for member in members):
        return  # one of the words that a Literal allows
    if kind is bool and not isinstance(value, bool):
        wrong = "true, false"
    elif isinstance(value, bool) and {int, float} & set(members):
        wrong = "numbers"
    elif float in members and not _finite(value):
        wrong = "finite numbers"
    if wrong:
        raise ValueError(f"{'.'.join(path)} is {_shown(value)}; allowed: {wrong}")


def _finite(value: Any) -> bool:
    """Whether pydantic reads it as a finite number, if it reads it as a number at all."""
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return True
    except OverflowError:
        return False


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


def _unknown(full: str, path: tuple[str, ...], name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{'.'.join((*path, close[0]))}'? " if close else ""
    where = f"settings of {'.'.join(path)}" if path else "settings"
    return f"unknown setting '{full}'; {hint}{where}: {', '.join(names)}"


def _choose(specs: list[Any], values: Any, path: tuple[str, ...]) -> Any:
    """The one among these dataclasses that `kind` names. Raises ValueError that lists their kinds."""
    where = ".".join(path)
    kinds = {getattr(member, "kind", member.__name__): member for member in specs}
    known = f"known: {', '.join(sorted(kinds))}"
    if not isinstance(values, Mapping):
        named = all(hasattr(member, "kind") for member in specs)
        inside = [field.name for field in dataclasses.fields(specs[0])]
        allowed = known if named else f"settings inside it: {', '.join(inside)}"
        raise ValueError(f"'{where}' is {_shown(values)}; {allowed}")
    if len(specs) == 1 and "kind" not in values:
        return specs[0]
    if not isinstance(values.get("kind"), str) or values["kind"] not in kinds:
        raise ValueError(f"'{'.'.join((*path, 'kind'))}' is {_shown(values.get('kind'))}; {known}")
    return kinds[values["kind"]]


def _first(error: ValidationError) -> str:
    """The first complaint in one line: where, what was given, what is allowed."""
    # Of a union, pydantic complains about every member; those of other kinds were never meant.
    problem = next((each for each in error.errors() if each["loc"][-1:] != ("kind",)), error.errors()[0])
    words = [str(part) for part in problem["loc"]]
    path = ".".join(word for word in words if not word[:1].isupper())
    message = problem["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = problem.get("input")
    shown = "" if isinstance(given, Mapping) or dataclasses.is_dataclass(given) else f" (given: {given!r})"
    return f"{path}: {message}{shown}" if path else message
