"""The runtime type checker of the tests, by beartype alone where no array type is involved.

For shapes, jaxtyping binds the arguments of each call and has them checked twice, which took half of the time
of tests that handle settings. A function without array types is checked by beartype once.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ForwardRef, ParamSpec, TypeVar, get_args

import jaxtyping
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation, BeartypeDecorHintException
from jaxtyping import TypeCheckError, config

original = jaxtyping.jaxtyped


def install() -> None:
    """Check what is imported from now on."""
    jaxtyping.jaxtyped = jaxtyped


def jaxtyped(*, typechecker: Any) -> Callable[[Any], Any]:
    """Return the decorator that jaxtyping's import hook applies to each class and function."""

    def decorate(function: Any) -> Any:
        checked = None if may_have_shapes(function) else without_shapes(function)
        return checked or original(typechecker=typechecker)(function)

    return decorate


def may_have_shapes(function: Any) -> bool:
    """Whether this is a class, or a function with an array type or with a name that is not yet known."""
    return not isinstance(function, FunctionType) or any(map(has_shape, function.__annotations__.values()))


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

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if config.jaxtyping_disable:
            return function(*args, **kwargs)
        try:
            return checked(*args, **kwargs)
        except BeartypeCallHintViolation as violation:
            raise TypeCheckError(str(violation)) from None

    return wrapped
