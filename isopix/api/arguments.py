"""Check the arguments of a function against its own annotations; each mistake is one clear line."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from itertools import chain, repeat
from types import NoneType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from isopix.api.signatures import members, name_types, named_signature
from isopix.core.choices import Count, Range
from isopix.core.text import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

PathLike = str | os.PathLike[str]
NonNegative = Annotated[int, Range(low=0)]
name_types(PathLike=PathLike, NonNegative=NonNegative, Count=Count)

NUMBERS: dict[Any, tuple[type, ...]] = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}
NAMES: dict[Any, str] = {int: "an integer", float: "a number", bool: "True or False", str: "a string"}
NAMES |= {os.PathLike: "a path", Callable: "a function", NoneType: "None"}
NAMES |= {np.ndarray: "a NumPy array"}
PLURALS: dict[Any, str] = {int: "integers", float: "numbers", str: "strings"}
MAX_SHOWN = 60  # characters of a wrong value


class _MismatchError(Exception):
    """The value is not of this type; one of another member of the union may be."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise ValueError for arguments that its annotations do not allow, before it starts.

    Choices (`Literal`), numbers and their ranges (`Annotated` with a `Range`), strings, paths, classes of
    this package, and sequences of them are checked. Numbers of NumPy become those of Python, sequences
    tuples. What is in an array is left to the function.
    """
    parameters = inspect.signature(function).parameters.values()
    places = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    known = [each.name for each in parameters]
    hints = cache(lambda: get_type_hints(function, include_extras=True))

    def check(name: str, value: Any) -> Any:
        return _check(name, hints()[name], value) if name in hints() else value

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if not takes_any and (unknown := next((each for each in kwargs if each not in known), None)):
            raise TypeError(_unexpected(function.__name__, unknown, kwargs[unknown], known))
        names = chain(places, repeat(places[-1] if places else ""))  # the last may take any number
        given: list[Any] = [check(name, value) for name, value in zip(names, args, strict=False)]
        named: dict[str, Any] = {name: check(name, value) for name, value in kwargs.items()}
        return function(*given, **named)

    wrapped.__signature__ = named_signature(function)  # type: ignore[attr-defined]
    return wrapped


def _unexpected(function: str, name: str, value: object, known: Sequence[str]) -> str:
    """Say that a function has no such argument, and which one was meant, or that it may be a setting."""
    text = f"{function}() has no argument '{name}'"
    if hint := did_you_mean(name, known):
        return f"{text}; {hint.rstrip()}"
    if "overrides" in known:
        return f"{text}; if it is a setting: overrides=[{f'{name}={value}'!r}]"
    return f"{text}; arguments: {', '.join(each for each in known if each != 'self')}"


def _check(name: str, hint: Any, value: Any) -> Any:
    """Return the value, converted; raises ValueError with what was given and what is allowed."""
    for member in members(hint):
        try:
            return _convert(name, member, value)
        except _MismatchError:
            continue
    raise ValueError(f"{name} is {_shown(value)}; {_allowed(hint)}")


def _convert(name: str, hint: Any, value: Any) -> Any:
    """Return a value of this type, no union. Raises _MismatchError for one of another type, and ValueError
    for a number outside its range and for a wrong element.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _within(name, inner[1:], _convert(name, inner[0], value))
    if origin is tuple and inner[-1] is not ...:
        return _pair(name, inner, value)
    if origin in (Sequence, tuple):
        return _elements(name, inner[0], value)
    if not _is_instance(hint, value):
        raise _MismatchError
    return value.item() if isinstance(value, np.generic) else value


def _is_instance(hint: Any, value: Any) -> bool:
    """Return whether the value is of this type; True where it cannot be told."""
    origin = get_origin(hint) or hint
    if origin is Literal:
        return isinstance(value, str | int) and value in get_args(hint)
    if origin in NUMBERS:
        return isinstance(value, NUMBERS[origin]) and not isinstance(value, bool)
    if origin is bool:
        return isinstance(value, bool | np.bool_)
    if origin is Callable:
        return callable(value)
    known = origin in NAMES or _is_own(origin) or _is_torch(origin)
    return isinstance(value, origin) if known else True


def _is_own(cls: Any) -> bool:
    return isinstance(cls, type) and cls.__module__.startswith("isopix.")


def _is_torch(cls: Any) -> bool:
    """Return whether it is a tensor's or device's class of PyTorch, which is not imported for this."""
    return isinstance(cls, type) and cls.__module__ == "torch" and cls.__name__ in ("Tensor", "device")


def _within(name: str, extras: Sequence[Any], value: Any) -> Any:
    for allowed in extras:
        if isinstance(allowed, Range) and value not in allowed:
            raise ValueError(f"{name} is {value}; allowed: {allowed}")
    return value


def _pair(name: str, hints: Sequence[Any], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) != len(hints):
        raise _MismatchError
    return tuple(_convert(name, *each) for each in zip(hints, value, strict=True))


def _elements(name: str, hint: Any, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | Mapping | os.PathLike) or not isinstance(value, Iterable):
        raise _MismatchError
    return tuple(_check(f"{name}[{place}]", hint, each) for place, each in enumerate(value))


def _allowed(hint: Any) -> str:
    """Describe what is allowed: "allowed: fp32, bf16" or "it must be a string or a path"."""
    allowed = [each for each in members(hint) if each is not NoneType]
    if len(allowed) == 1 and get_origin(allowed[0]) is Literal:
        return f"allowed: {', '.join(map(str, get_args(allowed[0])))}"
    names = [_name(each) for each in allowed]
    return f"it must be {' or '.join([', '.join(names[:-1]), names[-1]] if names[1:] else names)}"


def _name(hint: Any) -> str:
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return _name(inner[0])
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple and inner[-1] is not ...:
        return f"({', '.join(_name(each) for each in inner)})"
    if origin in (Sequence, tuple):
        element = get_args(inner[0])[0] if get_origin(inner[0]) is Annotated else inner[0]
        return f"a list of {PLURALS.get(element, 'values')}"
    article = "an" if getattr(origin, "__name__", "x")[0] in "AEIOU" else "a"
    return NAMES.get(origin) or f"{article} {origin.__name__}"


def _shown(value: Any) -> str:
    """Return a short value as Python writes it, and of anything else its class."""
    plain = isinstance(value, str | int | float | list | tuple | np.generic) or value is None
    text = repr(value.item() if isinstance(value, np.generic) else value) if plain else ""
    name = type(value).__name__
    return text if plain and len(text) <= MAX_SHOWN and "\n" not in text else f"a {name}"
