"""The runtime type checker of the tests: it checks a function once for each form of arguments and result.

A form is the shape and dtype of an array, and the class of anything else. jaxtyping binds the arguments of
each call and has them checked twice, which without this takes half of the time of the tests. Functions
without array types are mypy's.
"""

import functools
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from enum import Enum
from types import FunctionType
from typing import Any

import jaxtyping
import numpy as np
from jaxtyping import config
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
            return checked_by_form(function, typechecker)
        if is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = checked_by_form(function.__init__, typechecker)  # type: ignore[misc]
        return function

    return decorate


def checked_by_form(function: FunctionType, typechecker: Any) -> Callable[..., Any]:
    """Return the function with its types and shapes checked where their forms are new."""
    if not any("jaxtyping" in repr(hint) for hint in function.__annotations__.values()):
        return function
    check = original(typechecker=typechecker)
    checked = functools.cache(lambda: check(function))  # built at the first call
    passed: dict[Hashable, set[Hashable]] = {}  # the forms of results, for each form of the arguments

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if config.jaxtyping_disable:
            return function(*args, **kwargs)
        given = (len(args), *map(form, args), *kwargs, *map(form, kwargs.values()))
        if given not in passed:
            result = checked()(*args, **kwargs)
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
    if isinstance(value, Tensor | np.ndarray):
        return type(value), value.shape, value.dtype
    if isinstance(value, list | tuple | set | frozenset):
        return (type(value), *map(form, value)) if len(value) <= LONG else object()
    if isinstance(value, dict):
        return dict, form((*value, *value.values()))
    return value if isinstance(value, str | Enum | type) else type(value)
