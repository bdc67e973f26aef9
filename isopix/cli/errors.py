"""What is wrong with the words of a command, in one line: what was given, and what is allowed."""

import difflib
from collections.abc import Iterable
from functools import singledispatch
from typing import Any, Literal, get_args, get_origin

from cyclopts import CycloptsError
from cyclopts.argument import Argument
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

CLOSE = 0.75  # of two names: `limt` and `limit` are, `nope` and `top-p` are not
KINDS: dict[Any, str] = {int: "whole numbers", float: "numbers", bool: "nothing, it is on when it is there"}


@singledispatch
def complaint(error: CycloptsError) -> str:
    """One line about it."""
    return " ".join(str(error).split())


@complaint.register
def _(error: UnknownCommandError) -> str:
    assert error.unused_tokens
    assert error.app
    verbs = [name for name in error.app if not name.startswith("-")]
    given = error.unused_tokens[0]
    return f"unknown verb '{given}'; {_close(given, verbs)}verbs: {', '.join(verbs)}"


@complaint.register
def _(error: UnknownOptionError) -> str:
    given = (error.token.keyword or error.token.value).split("=")[0]
    arguments = [each for each in error.argument_collection if each.parse]
    options = [name for each in arguments if not _positional(each) for name in each.names]
    listed = f"options of {_verb(error)}: {', '.join(options)}"
    return f"unknown option '{given}'; {_close(given, options)}{listed}"


@complaint.register
def _(error: CoercionError) -> str:
    assert error.token
    assert error.argument
    kind = error.target_type
    choices = get_args(kind) if get_origin(kind) is Literal else (KINDS.get(kind, kind),)
    allowed = ", ".join(map(str, choices))
    return f"{error.token.keyword or _name(error.argument)} is '{error.token.value}'; allowed: {allowed}"


@complaint.register
def _(error: ValidationError) -> str:
    assert error.argument
    rule = error.exception_message.rstrip(".").lower()
    return f"{_name(error.argument)} is {error.argument.value}; it {rule}"


@complaint.register
def _(error: MissingArgumentError) -> str:
    assert error.argument
    if error.keyword is None:
        return f"{_name(error.argument)} is missing; see: {_verb(error)} --help"
    count, _ = error.argument.token_count()
    return f"{error.keyword} needs {'a value' if count == 1 else f'{count} values'}"


@complaint.register
def _(error: UnusedCliTokensError) -> str:
    assert error.unused_tokens
    return f"'{error.unused_tokens[0]}' is one word too many; see: {_verb(error)} --help"


@complaint.register
def _(error: RepeatArgumentError) -> str:
    return f"{error.token.keyword} is given more than once"


def _verb(error: CycloptsError) -> str:
    return " ".join(["isopix", *(error.command_chain or ())])


def _positional(argument: Argument) -> bool:
    return argument.field_info.is_positional


def _name(argument: Argument) -> str:
    """An option as it is written, a positional argument in capitals, as on the page of help."""
    return argument.name.lstrip("-").upper() if _positional(argument) else argument.name


def _close(given: str, names: Iterable[str]) -> str:
    """A question, if one of the names is close to what was given."""
    bare = {name.lstrip("-"): name for name in names}
    found = difflib.get_close_matches(given.lstrip("-"), bare, n=1, cutoff=CLOSE)
    return f"did you mean '{bare[found[0]]}'? " if found else ""
