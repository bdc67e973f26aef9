"""The runtime type checker of the tests: it checks a function once for each form of arguments and result.

A form is the shape and dtype of an array, and the class of anything else; whether a call passes depends on
nothing else. jaxtyping binds the arguments of each call and has them checked twice, which without this takes
half of the time of the tests. A function without array types is checked by beartype alone, at each call.
"""

import functools
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from enum import Enum
from types import FunctionType
from typing import Any, ForwardRef, ParamSpec, TypeVar, get_args

import jaxtyping
import numpy as np
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation, BeartypeDecorHintException
from jaxtyping import TypeCheckError, config
from torch import Tensor

original = jaxtyping.jaxtyped
LONG = 32  # a list, tuple, set or dictionary of more items has no form: it is checked at each call


def install() -> None:
    """Check what is imported from now on."""
    jaxtyping.jaxtyped = jaxtyped


def jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """Return the decorator that jaxtyping's import hook applies to each class and function."""

    def decorate(function: Any) -> Any:
        if not isinstance(function, type):
            return checked_when_called(function, typechecker)
        if is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = checked_when_called(function.__init__, typechecker)  # type: ignore[misc]
        return function

    return decorate


def checked_when_called(function: FunctionType, typechecker: Any) -> Callable[..., Any]:
    """Return the function with its types checked; its checker is built at the first call."""

    @functools.cache
    def checker() -> Callable[..., Any]:
        found = None if may_have_shapes(function) else without_shapes(function)
        return found or with_shapes(function, typechecker)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return (function if config.jaxtyping_disable else checker())(*args, **kwargs)

    return wrapped


def with_shapes(function: FunctionType, typechecker: Any) -> Callable[..., Any]:
    """Return the function with its types and shapes checked, where their forms are new."""
    check = original(typechecker=typechecker)
    checked = check(function)
    passed: dict[Hashable, set[Hashable]] = {}  # the forms of results, for each form of the arguments

    def called(*args: Any, **kwargs: Any) -> Any:
        given = (len(args), *map(form, args), *kwargs, *map(form, kwargs.values()))
        if given not in passed:
            result = checked(*args, **kwargs)
            passed[given] = {form(result)}
            return result
        result = function(*args, **kwargs)
        returned = form(result)
        if returned not in passed[given]:
            check(functools.wraps(function)(lambda *args, **kwargs: result))(*args, **kwargs)
            passed[given].add(returned)
        return result

    return called


def form(value: object) -> Hashable:
    """Return what the check of a value depends on."""
    return FORMS[type(value)](value)


@functools.singledispatch
def form_of(value: object) -> Hashable:
    return type(value)


class Forms(dict[type, Callable[[Any], Hashable]]):
    """The function of `form_of` for each class, found faster than by it."""

    def __missing__(self, cls: type) -> Callable[[Any], Hashable]:
        self[cls] = form_of.dispatch(cls)
        return self[cls]


FORMS = Forms()


@form_of.register(Tensor)
@form_of.register(np.ndarray)
def _(value: Any) -> Hashable:
    return type(value), value.shape, value.dtype


@form_of.register(str)
@form_of.register(Enum)
@form_of.register(type)
def _(value: Hashable) -> Hashable:
    return value


@form_of.register(list)
@form_of.register(tuple)
@form_of.register(set)
@form_of.register(frozenset)
def _(value: Any) -> Hashable:
    return (type(value), *map(form, value)) if len(value) <= LONG else object()


@form_of.register(dict)
def _(value: dict[Any, Any]) -> Hashable:
    return type(value), form((*value, *value.values()))


def may_have_shapes(function: FunctionType) -> bool:
    """Whether a function has an array type, or a name that is not yet known."""
    return any(map(has_shape, function.__annotations__.values()))


def has_shape(hint: Any) -> bool:
    """Whether an annotation has an array type, or a name that is not yet known, anywhere in it."""
    if isinstance(hint, TypeVar):
        return any(map(has_shape, (hint.__bound__, *hint.__constraints__)))
    if isinstance(hint, list):  # the arguments of a Callable
        return any(map(has_shape, hint))
    unknown = isinstance(hint, str | ForwardRef | ParamSpec)
    return unknown or "jaxtyping" in repr(hint) or any(map(has_shape, get_args(hint)))


def without_shapes(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the function with its types checked, or None if beartype does not know one of them."""
    try:
        checked = beartype(function)
    except BeartypeDecorHintException:
        return None

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return checked(*args, **kwargs)
        except BeartypeCallHintViolation as violation:
            raise TypeCheckError(str(violation)) from None

    return called
