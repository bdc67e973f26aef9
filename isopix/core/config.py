"""Settings: frozen dataclasses to and from plain nested values.

A field whose type is the base class of a noun takes any part registered under it, chosen by `kind`. Names are
checked before values, so that every error says which are right; pydantic checks and converts the values.
"""

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError

from isopix.core.choices import check_ranges
from isopix.core.registry import Part, kinds_of
from isopix.core.text import did_you_mean

T = TypeVar("T")
MAX_SHOWN = 200  # characters of a wrong value


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def config(cls: type[T]) -> type[T]:
    """Make a settings class a frozen, keyword-only dataclass; registered parts use `register` instead."""
    if not hasattr(cls, "__post_init__"):
        cls.__post_init__ = check_ranges  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def to_dict(settings: object) -> dict[str, Any]:
    """Return settings as nested plain values, ready for JSON; those of a part start with its `kind`."""
    assert dataclasses.is_dataclass(settings), settings
    values: dict[str, Any] = {"kind": settings.kind} if isinstance(settings, Part) else {}
    for item in dataclasses.fields(settings):
        values[item.name] = _plain(getattr(settings, item.name))
    return values


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return str(value) if isinstance(value, Path) else value


def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build settings of a class from nested values; where a part is expected, its kind alone stands for it.

    Raises ValueError that names the wrong path or value, and the allowed ones.
    """
    return _build(cls, values, ())


def default_part(cls: type, values: Mapping[str, Any], path: str, kind: object) -> dict[str, Any]:
    """Return the values of the part at a path of settings, of another kind with its defaults.

    Raises ValueError for a kind that is not registered.
    """
    hint: Any = cls
    names = path.split(".")
    for depth, name in enumerate(names, start=1):
        hint, values = _hints(hint)[name], values[name]
        hint = next(each for each in (*get_args(hint), hint) if _is_settings(each))
        if issubclass(hint, Part):
            own = kind if depth == len(names) else values["kind"]
            hint = _part(hint, {"kind": own}, tuple(names[:depth]))[0]
    required = [item for item in dataclasses.fields(hint) if item.default is item.default_factory]
    return {"kind": kind} if required else to_dict(hint())


def _build(hint: Any, values: Any, path: tuple[str, ...]) -> Any:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if values is None and NoneType in members:
        return None
    inner = get_args(hint)
    if get_origin(hint) is tuple and _is_settings(inner[0]) and isinstance(values, list | tuple):
        return tuple(_build(inner[0], each, (*path, str(place))) for place, each in enumerate(values))
    if get_origin(hint) in (dict, Mapping) and _is_settings(inner[1]) and isinstance(values, Mapping):
        return {key: _build(inner[1], each, (*path, str(key))) for key, each in values.items()}
    settings = next((member for member in members if _is_settings(member)), None)
    return validated(".".join(path), hint, values) if settings is None else _settings(settings, values, path)


def _is_settings(member: Any) -> bool:
    return isinstance(member, type) and dataclasses.is_dataclass(member)


def _settings(cls: Any, values: Any, path: tuple[str, ...]) -> Any:
    """Settings of a class, or of the part that `kind` names. Raises ValueError for wrong names and values."""
    if issubclass(cls, Part):
        cls, values = _part(cls, values, path)
    if not isinstance(values, Mapping):
        inside = ", ".join(item.name for item in dataclasses.fields(cls))
        raise ValueError(f"'{'.'.join(path)}' is {_shown(values)}; settings inside it: {inside}")
    hints, fields = _hints(cls), {item.name: item for item in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            names = ["kind", *fields] if issubclass(cls, Part) else list(fields)
            raise ValueError(_unknown(".".join((*path, str(name))), path, str(name), names))
    built = {
        name: _build(hints[name], _with_kind(fields[name], value), (*path, name))
        for name, value in values.items()
    }
    for name, item in fields.items():
        if name not in built and item.default is item.default_factory is dataclasses.MISSING:
            raise ValueError(f"setting '{'.'.join((*path, name))}' is missing; it has no default")
    try:
        return cls(**built)
    except ValueError as error:
        where = ".".join(path)
        raise ValueError(f"{where}: {_lower(str(error))}" if where else _lower(str(error))) from None


def _part(cls: type[Part], values: Any, path: tuple[str, ...]) -> tuple[type[Part], Any]:
    """The part that values name by their kind, and its settings. Raises ValueError that lists the kinds."""
    kinds = kinds_of(cls)
    known = f"known: {', '.join(sorted(kinds))}"
    if isinstance(values, str):
        values = {"kind": values}
    if not isinstance(values, Mapping):
        raise ValueError(f"'{'.'.join(path)}' is {_shown(values)}; {known}")
    if cls in kinds.values() and "kind" not in values:
        return cls, values
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        hint = did_you_mean(kind, kinds) if isinstance(kind, str) else ""
        raise ValueError(f"'{'.'.join((*path, 'kind'))}' is {_shown(kind)}; {hint}{known}")
    return kinds[kind], {name: value for name, value in values.items() if name != "kind"}


def _with_kind(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """A part without `kind` is of its default's."""
    if not isinstance(value, Mapping) or "kind" in value:
        return value
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return {"kind": default.kind, **value} if isinstance(default, Part) else value


def validated(name: str, hint: Any, value: Any) -> Any:
    """Return one value, checked and converted by pydantic: of a setting, or an argument of a function.

    Raises ValueError with what was given and what is allowed.
    """
    if getattr(value, "ndim", None) == 0:  # a number of NumPy or PyTorch
        value = value.item()
    try:
        _check_value(hint, value)
        return _adapter(hint).validate_python(value)
    except ValidationError as error:
        own = [str(each["ctx"]["error"]) for each in error.errors() if each["type"] == "value_error"]
        finite = any(each["type"] == "finite_number" for each in error.errors())
        problem = own[0] if own else f"it must be {'a finite number' if finite else _expected(hint)}"
    except ValueError as error:
        problem = f"it must be {error}"
    raise ValueError(f"{name} is {_shown(value)}; {problem}") from None


@cache
def _adapter(hint: Any) -> Any:
    """pydantic's checker of a type, whose making takes far longer than its use."""
    if _is_settings(hint):
        return TypeAdapter(InstanceOf[hint])
    return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False))


@cache
def _hints(cls: type) -> dict[str, Any]:
    """The types of the fields of a class, which take longer to find than to use."""
    return get_type_hints(cls)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _expected(hint: Any) -> str:
    """Describe the values of a type: "an integer or null", "one of fp32, bf16", "a list of numbers"."""
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Annotated:
        return _expected(inner[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(_expected, inner)))
    if origin is Literal:
        words = [json.dumps(each) if each is None else str(each) for each in inner]
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    if origin is tuple:
        return _expected_items(inner)
    words_by_type = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
    if isinstance(hint, type) and issubclass(hint, Part):
        return f"a {hint.noun}"
    return {**words_by_type, NoneType: "null", Path: "a path"}.get(
        hint
    ) or f"a {getattr(hint, '__name__', hint)}"


def _expected_items(inner: tuple[Any, ...]) -> str:
    if inner[-1] is not Ellipsis:
        return f"a list of {', '.join(map(_expected, inner))}"
    if get_origin(inner[0]) is tuple:
        return f"a list of lists, each {_expected(inner[0])}"
    return f"a list of {_expected(inner[0]).split(' ', maxsplit=1)[-1]}s"


def _check_value(kind: Any, value: Any) -> None:
    """Raises ValueError, with what is expected, for values that pydantic takes and nobody means: true for 1,
    `yes` for true.
    """
    members = _members(kind)
    if isinstance(value, str) and any(value in get_args(member) for member in members):
        return  # one of the words that a Literal allows
    if (
        (bool in members) != isinstance(value, bool)
        and value is not None
        and {bool, int, float} & set(members)
    ):
        raise ValueError(_expected(kind))


def _members(hint: Any) -> list[Any]:
    """The types that a type stands for: those of a union, without their annotations."""
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [each for member in get_args(hint) for each in _members(member)]
    return [hint]


def _shown(value: Any) -> str:
    if not isinstance(value, bool | int | float | str | list | tuple | dict | None):
        return f"a {type(value).__name__}"
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."


def _unknown(full: str, path: tuple[str, ...], name: str, names: list[str]) -> str:
    hint = did_you_mean(name, names).replace("'", f"'{'.'.join((*path, ''))}", 1)
    where = f"settings of {'.'.join(path)}" if path else "settings"
    return f"unknown setting '{full}'; {hint}{where}: {', '.join(names)}"
