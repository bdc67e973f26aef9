"""Settings: frozen dataclasses to and from plain nested values, described by the docstrings below fields.

A field of a noun's base class takes any registered part, chosen by `kind`; pydantic checks values.
"""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError

from isopix.core.choices import check_ranges
from isopix.core.registry import Part, kinds_of
from isopix.core.text import did_you_mean, expand_home

T = TypeVar("T")
MAX_SHOWN = 200  # characters of a wrong value


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def config(cls: type[T]) -> type[T]:
    """Make a settings class a frozen, keyword-only dataclass; registered parts use `register` instead."""
    if not hasattr(cls, "__post_init__"):
        cls.__post_init__ = check_ranges  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def changed(settings: Any) -> list[str]:
    """Return the names of the settings that are not their defaults."""
    fields = dataclasses.fields(settings)
    return [each.name for each in fields if getattr(settings, each.name) != each.default]


def to_dict(settings: object) -> dict[str, Any]:
    """Return settings as nested plain values, ready for JSON; those of a part start with its `kind`."""
    assert dataclasses.is_dataclass(settings), settings
    kind: dict[str, Any] = {"kind": settings.kind} if isinstance(settings, Part) else {}
    return kind | {item.name: _plain(getattr(settings, item.name)) for item in dataclasses.fields(settings)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return str(value) if isinstance(value, Path) else value


def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build settings from nested values, where a part's kind alone may stand for the part."""
    return _build(cls, values, "")


def default_part(cls: type, values: Mapping[str, Any], path: str, kind: object) -> dict[str, Any]:
    """Return the values of the part at a path of settings, of another kind with its defaults."""
    hint: Any = cls
    names = path.split(".")
    for depth, name in enumerate(names, start=1):
        hint, values = _settings_class(_hints(hint)[name]), values[name]
        if issubclass(hint, Part):
            own = kind if depth == len(names) else values["kind"]
            hint = _part(hint, {"kind": own}, ".".join(names[:depth]))[0]
    required = [item for item in dataclasses.fields(hint) if item.default is item.default_factory]
    return {"kind": kind} if required else to_dict(hint())


def _build(hint: Any, values: Any, path: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if values is None and NoneType in inner:
        return None
    if origin is tuple and _is_settings(inner[0]) and isinstance(values, list | tuple):
        return tuple(_build(inner[0], each, _inside(path, place)) for place, each in enumerate(values))
    if origin in (dict, Mapping) and _is_settings(inner[1]) and isinstance(values, Mapping):
        return {key: _build(inner[1], each, _inside(path, key)) for key, each in values.items()}
    settings = _settings_class(hint)
    return validated(path, hint, values) if settings is None else _settings(settings, values, path)


def _settings_class(hint: Any) -> Any:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next(filter(_is_settings, members), None)


def _is_settings(member: Any) -> bool:
    return isinstance(member, type) and dataclasses.is_dataclass(member)


def _inside(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _settings(cls: Any, values: Any, path: str) -> Any:
    if issubclass(cls, Part):
        cls, values = _part(cls, values, path)
    fields = {item.name: item for item in dataclasses.fields(cls)}
    if not isinstance(values, Mapping):
        raise ValueError(f"'{path}' is {_shown(values)}; settings inside it: {', '.join(fields)}")
    if unknown := next((name for name in values if name not in fields), None):
        names = ["kind", *fields] if issubclass(cls, Part) else list(fields)
        hint = did_you_mean(str(unknown), names, shown=lambda found: _inside(path, found))
        where = f"settings of {path}" if path else "settings"
        raise ValueError(f"unknown setting '{_inside(path, unknown)}'; {hint}{where}: {', '.join(names)}")
    built = {name: _build(_hints(cls)[name], value, _inside(path, name)) for name, value in values.items()}
    for name, item in fields.items():
        if name not in built and item.default is item.default_factory is dataclasses.MISSING:
            raise ValueError(f"setting '{_inside(path, name)}' is missing; it has no default")
    try:
        return cls(**built)
    except ValueError as error:
        message = str(error)[:1].lower() + str(error)[1:]
        named = not path or message.partition(" ")[0] in fields
        raise ValueError(_inside(path, message) if named else f"{path}: {message}") from None


def _part(cls: type[Part], values: Any, path: str) -> tuple[type[Part], Any]:
    kinds = kinds_of(cls)
    values = values if isinstance(values, Mapping) else {"kind": values}
    if cls in kinds.values() and "kind" not in values:
        return cls, values
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        hint = did_you_mean(kind, kinds) if isinstance(kind, str) else ""
        known = f"known: {', '.join(sorted(kinds))}; others need --plugin FILE"
        raise ValueError(f"'{_inside(path, 'kind')}' is {_shown(kind)}; {hint}{known}")
    return kinds[kind], {name: value for name, value in values.items() if name != "kind"}


def validated(name: str, hint: Any, value: Any) -> Any:
    """Return one value, checked and converted by pydantic, which takes no true for 1, and no 1 for true."""
    value = expand_home(value)  # all settings and arguments of users pass here
    if getattr(value, "ndim", None) == 0:  # a number of NumPy or PyTorch
        value = value.item()
    try:
        found = _adapter(hint).validate_python(value)
        if isinstance(found, bool) == isinstance(value, bool):
            return found
        problem = f"it must be {'true or false' if isinstance(found, bool) else 'a number'}"
    except ValidationError as error:
        said = [each["msg"] for each in error.errors() if each["type"] != "path_type"]  # a string is one, too
        problem = " or ".join(dict.fromkeys(said)) or "Input should be a path"
        problem = problem.replace("Value error, ", "").replace("Input should be", "it must be", 1)
        problem = problem.partition(", unable to ")[0]
    hint = did_you_mean(str(value), problem.split("'")[1::2])
    raise ValueError(f"{name} is {_shown(value)}; {hint}{problem.replace('Input should be ', '')}")


@cache
def _adapter(hint: Any) -> Any:
    if _is_settings(hint):
        return TypeAdapter(InstanceOf[hint])
    return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _shown(value: Any) -> str:
    if not isinstance(value, bool | int | float | str | list | tuple | dict | None):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."


@cache
def descriptions(cls: type) -> dict[str, str]:
    """Return the text below each field of a class and its bases; none for a class without source code."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        with suppress(OSError, TypeError):
            definition: Any = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            for field, text in pairwise(definition.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(text.value))
    return found


def meanings(settings: object) -> dict[str, str]:
    """Return the description of every setting by its path; of a `kind`, the first paragraph of the part's."""
    assert dataclasses.is_dataclass(settings), settings
    cls: type = type(settings)
    first = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
    if first.startswith(f"{cls.__name__}("):  # of a class without a docstring, by `dataclass`
        first = ""
    found: dict[str, str] = {"kind": first} if isinstance(settings, Part) else {}
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        if dataclasses.is_dataclass(value):
            found |= {f"{item.name}.{path}": text for path, text in meanings(value).items()}
        else:
            found[item.name] = " ".join(descriptions(cls).get(item.name, "").split())
    return found
