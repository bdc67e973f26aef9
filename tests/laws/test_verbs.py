"""Laws over all verbs: names, help without torch, options that arrive, arguments that are used."""

import ast
import builtins
import dataclasses
import inspect
import keyword
import textwrap
from itertools import chain
from pathlib import Path
from typing import NoReturn, get_args, get_type_hints

import pytest

from isopix.cli import main as command
from isopix.cli.main import COMMANDS
from isopix.core.verb import FLAT, Verb
from isopix.storage.result import Result
from isopix.verbs import VERBS

PACKAGE = Path(command.__file__).parents[1]
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
verbs = pytest.mark.parametrize("verb", [pytest.param(each, id=each.command) for each in VERBS.values()])


def parameters(verb: Verb) -> list[inspect.Parameter]:
    return list(inspect.signature(verb.function).parameters.values())


@verbs
def test_a_verb_has_a_name_of_its_own_an_example_and_a_result(verb: Verb) -> None:
    assert verb.name not in {*ROOMS, *keyword.kwlist, *dir(builtins)}
    assert (inspect.getdoc(verb.function) or "").partition("\n")[0].endswith(".")
    assert "\nExample: isopix " in (inspect.getdoc(verb.function) or "")
    returned = get_type_hints(verb.function)["return"]
    assert returned is NoReturn or all(issubclass(each, Result) for each in get_args(returned) or [returned])


def test_every_command_is_in_one_panel_of_the_help() -> None:
    assert sorted(chain(*COMMANDS.values())) == sorted(VERBS)


@verbs
def test_every_argument_is_described(verb: Verb) -> None:
    texts = [
        getattr(extra, "help", None) for each in parameters(verb) for extra in get_args(each.annotation)[1:]
    ]
    assert len([text for text in texts if text]) == len(parameters(verb))


@verbs
def test_every_argument_is_used(verb: Verb) -> None:
    """An argument is read where the verb computes, and a field of its settings somewhere in the package."""
    function = inspect.unwrap(verb.function)
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    read = {each.id for each in ast.walk(definition) if isinstance(each, ast.Name)}
    assert set(inspect.signature(function).parameters) - read == set()
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    for hint in get_type_hints(function, include_extras=True).values():
        if FLAT in get_args(hint)[1:]:
            fields = [each.name for each in dataclasses.fields(get_args(hint)[0])]
            assert [name for name in fields if f".{name}" not in source] == []
