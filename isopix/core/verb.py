"""A verb is one typed function: its command, help, checks of arguments and saved call come from it.

    @verb()
    def probe(run: RunLike, *settings: Settings, limit: Limit = None,
              config: Flat[ProbeConfig] = ProbeConfig()) -> ProbeResult:

Each field of settings that are `Flat` is a keyword argument and an option of its own, described by the text
below the field. Other arguments are described by `cyclopts.Parameter(help=...)` in their annotated types.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from cyclopts import Parameter
from pydantic import TypeAdapter

from isopix.core.config import validated
from isopix.core.descriptions import descriptions
from isopix.core.text import did_you_mean

T = TypeVar("T")
R = TypeVar("R")
FLAT = "flat"
Flat = Annotated[T, FLAT]


@dataclass(frozen=True)
class Verb:
    """A registered verb. `command` is its word, or two, on the command line: "probe", "recipe list"."""

    command: str
    function: Callable[..., Any]
    parallel: bool = False
    """Whether several processes run it together: `--devices`, torchrun."""
    slurm: bool = False
    """Whether it can run as a job: `--slurm`. It calls `begin_work` once its arguments are checked."""

    @property
    def name(self) -> str:
        """Its name in Python."""
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


VERBS: dict[str, Verb] = {}
"""Verbs by command."""

_job: ContextVar[int | None] = ContextVar("job", default=None)  # processes of a job that is only checked
_call: ContextVar[Mapping[str, Any] | None] = ContextVar("call", default=None)


def current_call() -> dict[str, Any]:
    """Return the running verb and its arguments, as plain values for its record; without a verb none."""
    return dict(_call.get() or {"verb": "", "arguments": {}})


def verb(
    *, command: str = "", parallel: bool = False, slurm: bool = False
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that registers a function as a verb; its command is by default its name."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        checked_function = checked(function)
        word = command or function.__name__.replace("_", "-")

        @functools.wraps(checked_function)
        def call(*args: Any, **kwargs: Any) -> R:
            with _calling(function.__name__, checked_function, args, kwargs):
                return checked_function(*args, **kwargs)

        VERBS[word] = Verb(word, call, parallel, slurm)
        return call

    return decorate


class _OnlyCheckedError(Exception):
    """The arguments of a verb are right, and its work is left to a job."""


def check_job(call: Callable[[], object], num_ranks: int) -> None:
    """Check the arguments of a call of a verb for a job of that many processes. Raises what the call raises
    before its work begins.
    """
    token = _job.set(num_ranks)
    try:
        call()
    except _OnlyCheckedError:
        pass
    finally:
        _job.reset(token)


def begin_work(check_ranks: Callable[[int], None]) -> None:
    """End a call here whose arguments are only checked, also for the number of processes of its job."""
    if (num_ranks := _job.get()) is not None:
        check_ranks(num_ranks)
        raise _OnlyCheckedError


@contextmanager
def _calling(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[None]:
    """Keep the arguments for the records of the call."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # which the function says better
        yield
        return
    bound.apply_defaults()
    plain = TypeAdapter(dict[str, Any]).dump_python(bound.arguments, mode="json", fallback=str)
    token = _call.set({"verb": name, "arguments": plain})
    try:
        yield
    finally:
        _call.reset(token)


def checked(function: Callable[..., R]) -> Callable[..., R]:
    """Let a function take the fields of its `Flat` settings as keyword arguments, and raise ValueError for
    arguments that its annotations do not allow, TypeError for unknown ones with the nearest known.
    """
    parameters = inspect.signature(function).parameters

    @functools.cache
    def hints() -> dict[str, Any]:
        return get_type_hints(function, include_extras=True)

    @functools.cache
    def flat() -> dict[str, type]:
        return {name: get_args(hint)[0] for name, hint in hints().items() if FLAT in get_args(hint)[1:]}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        known = [*parameters, *(field.name for cls in flat().values() for field in dataclasses.fields(cls))]
        if unknown := next((name for name in kwargs if name not in known), None):
            raise TypeError(_unexpected(function.__name__, unknown, known))
        for name, cls in flat().items():
            kwargs = _gathered(name, cls, kwargs)
        bound = inspect.signature(function).bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name not in flat() and name in hints():
                hint = hints()[name]
                bound.arguments[name] = (
                    tuple(validated(f"{name}[{place}]", hint, each) for place, each in enumerate(value))
                    if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                    else validated(name, hint, value)
                )
        return function(*bound.args, **bound.kwargs)

    call.__signature__ = flat_signature(function)  # type: ignore[attr-defined]
    return call


def _gathered(name: str, cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in which the fields of a settings class are one argument."""
    own = {each.name: given[each.name] for each in dataclasses.fields(cls) if each.name in given}
    if not own:
        return dict(given)
    if name in given:
        raise ValueError(f"give {name}= or {', '.join(f'{each}=' for each in own)}, not both")
    hints = get_type_hints(cls, include_extras=True)
    settings = cls(**{each: validated(each, hints[each], value) for each, value in own.items()})
    return {key: value for key, value in given.items() if key not in own} | {name: settings}


def flat_signature(function: Callable[..., Any], *, described: bool = False) -> inspect.Signature:
    """Return the signature of a function with the fields of its `Flat` settings as keyword parameters,
    `described` for the command line by the texts below them.
    """
    function = inspect.unwrap(function)  # else its signature is flat already
    hints = get_type_hints(function, include_extras=True)
    found: list[inspect.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        hint = hints.get(each.name, each.annotation)
        if FLAT in get_args(hint)[1:]:
            found += _fields(get_args(hint)[0], each.default, described)
        else:
            found.append(each.replace(annotation=hint))
    return inspect.Signature(sorted(found, key=lambda each: each.kind), return_annotation=hints.get("return"))


def _fields(cls: type, default: object, described: bool) -> list[inspect.Parameter]:
    hints = get_type_hints(cls, include_extras=True)
    texts = descriptions(cls) if described else {}
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(default, field.name),
            annotation=_described(hints[field.name], texts.get(field.name, "")),
        )
        for field in dataclasses.fields(cls)
    ]


def _described(hint: Any, text: str) -> Any:
    return Annotated[hint, Parameter(help=" ".join(text.split()))] if text else hint


def _unexpected(function: str, name: str, known: Sequence[str]) -> str:
    text = f"{function}() has no argument '{name}'"
    if hint := did_you_mean(name, known):
        return f"{text}; {hint.rstrip()}"
    setting = f"; if it is a setting, write '{name}=VALUE'" if "settings" in known else ""
    return f"{text}{setting}; arguments: {', '.join(known)}"
