"""Signatures that name types, such as `RunLike`, where `help` would list all that they allow."""

import inspect
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

_named: list[tuple[str, Any]] = []


class _Name:
    """The annotation of a parameter in `help`."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def name_types(**types: Any) -> None:
    """Let signatures show these names for types that are defined in terms of others."""
    _named.extend(types.items())


def named_signature(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature of a function with the names of `name_types`."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=_shown(each.annotation)) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters)


def _shown(hint: Any) -> Any:
    for name, named in _named:
        if hint == named:
            return _Name(name)
        if _without_none(hint) == frozenset(members(named)):
            return _Name(f"{name} | None")
    return hint


def _without_none(hint: Any) -> frozenset[Any] | None:
    """Return the members of a union with None, without it; None for other types."""
    found = frozenset(members(hint))
    return found - {NoneType} if NoneType in found else None


def members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type alone."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
