"""Laws over all verbs: names, help without torch, options that arrive, arguments that are used."""

import ast
import builtins
import dataclasses
import inspect
import keyword
import textwrap
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin, get_type_hints

import pytest
from cyclopts import App

from isopix.cli import main as command
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
    assert returned is NoReturn or issubclass(returned, Result)


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


@verbs
def test_every_option_arrives(verb: Verb) -> None:
    """Each option of the command, given alone, is the argument of this name."""
    for each in parameters(verb):
        if each.kind is not each.KEYWORD_ONLY:
            continue
        words, value = sample(each.annotation)
        given = call(verb, [*required(verb, each.name), option(each), *words])
        assert given[each.name] == value, each.name


@verbs
def test_a_misspelled_argument_is_named_with_the_nearest_one(verb: Verb) -> None:
    names = [each.name for each in parameters(verb) if each.kind is each.KEYWORD_ONLY and len(each.name) > 3]
    for name in names[:1]:
        with pytest.raises(TypeError, match=f"no argument '{name[:-1]}'; did you mean '{name}'"):
            verb.function(**{name[:-1]: 1})


def call(verb: Verb, words: list[str]) -> dict[str, Any]:
    """Run a command up to its function, and return what that is called with."""
    found: dict[str, Any] = {}

    @wraps(verb.function)
    def record(*args: Any, **options: Any) -> Result:
        found.update(options)
        return Result(call={"verb": verb.name})

    app = App(name="isopix")
    command.add_verb(app, dataclasses.replace(verb, function=record), 0)
    run, bound, _ = app.parse_args([*verb.command.split(), *words], exit_on_error=False, print_error=False)
    run(*bound.args, **bound.kwargs)
    return found


def required(verb: Verb, but: str) -> list[str]:
    """Return words for the arguments without a default."""
    missing = [each for each in parameters(verb) if each.default is each.empty and each.name != but]
    words: list[str] = []
    for each in missing:
        if each.kind is each.KEYWORD_ONLY:
            words.append(option(each))
        if each.kind is not each.VAR_POSITIONAL:
            words += sample(each.annotation)[0]
    return words


def option(parameter: inspect.Parameter) -> str:
    own = [
        name for extra in get_args(parameter.annotation)[1:] for name in getattr(extra, "name", None) or ()
    ]
    return own[0] if own else f"--{parameter.name.replace('_', '-')}"


def sample(hint: Any) -> tuple[list[str], Any]:
    """Return words of the command line for a type, and their value."""
    if get_origin(hint) is Annotated:
        return sample(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return [str(get_args(hint)[-1])], get_args(hint)[-1]
    if get_origin(hint) in (tuple, list):
        kinds = [each for each in get_args(hint) if each is not Ellipsis]
        samples = [sample(each) for each in kinds]
        return [word for words, _ in samples for word in words], get_origin(hint)(
            value for _, value in samples
        )
    if hint in SAMPLES:
        return SAMPLES[hint]
    members = [each for each in get_args(hint) if each is not NoneType]
    return sample(members[0])


SAMPLES: dict[Any, tuple[list[str], Any]] = {
    int: (["3"], 3),
    float: (["0.5"], 0.5),
    str: (["word"], "word"),
    bool: ([], True),
    Path: (["folder"], Path("folder")),
}
