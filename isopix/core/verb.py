"""A verb is one typed function: its command, help, checks of arguments and saved call come from it.

    @verb()
    def probe(run: RunLike, *settings: Settings, limit: Limit = None,
              config: Flat[ProbeConfig] = ProbeConfig()) -> ProbeResult:

Each field of settings that are `Flat` is a keyword argument and an option of its own, described by the text
below the field. Another argument is described by a text in its type: `Annotated[int, "Random seed."]`. In
Python, `settings` also take a mapping, and keywords that are no arguments: "depth=6", settings={"depth": 6}
and depth=6 are the same, and later ones override earlier ones.
"""

import dataclasses
import functools
import inspect
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from cyclopts import Parameter
from pydantic import TypeAdapter

from isopix.core.config import descriptions, validated
from isopix.core.overrides import UnknownSettingError, as_yaml
from isopix.core.text import did_you_mean, require_utf8

T = TypeVar("T")
R = TypeVar("R")
FLAT, SETTINGS = "flat", "settings"
MAX_OUT = 200  # bytes of the 255 that a name may have: what is written beside `out` has longer names
Flat = Annotated[T, FLAT]


@dataclass(frozen=True)
class Verb:
    """A registered verb. `command` is its word on the command line: "list"."""

    command: str
    function: Callable[..., Any]
    parallel: bool = False
    """Whether several processes run it together: `--devices`, torchrun."""
    slurm: bool = False
    """Whether it can run as a job: `--slurm`. It calls `begin_work` once its arguments are checked."""

    @property
    def name(self) -> str:
        return self.function.__name__


VERBS: dict[str, Verb] = {}
"""Verbs by command."""

_job: ContextVar[int | None] = ContextVar("job", default=None)  # processes of a job that is only checked
_call: ContextVar[Mapping[str, Any]] = ContextVar("call")


def current_call() -> dict[str, Any]:
    """Return the running verb and its arguments, as plain values for its record; without a verb none."""
    return dict(_call.get({"verb": "", "arguments": {}}))


def verb(
    *, command: str = "", parallel: bool = False, slurm: bool = False
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator that registers a function as a verb; its command is by default its name."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        arguments, word = _Arguments(function), command or function.__name__.replace("_", "-")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            _require_main_guard(function.__name__)
            bound = arguments.bind(args, kwargs)
            plain = TypeAdapter(dict[str, Any]).dump_python(bound.arguments, mode="json", fallback=str)
            _check_paths(plain)
            token = _call.set({"verb": function.__name__, "arguments": plain})
            try:
                return arguments.call(bound)
            finally:
                _call.reset(token)

        call.__signature__ = arguments.signature  # type: ignore[attr-defined]
        VERBS[word] = Verb(word, call, parallel, slurm)
        return call

    return decorate


def _check_paths(arguments: Mapping[str, Any]) -> None:
    for name, value in (("the current folder", str(Path.cwd())), *arguments.items()):
        require_utf8(name, json.dumps(value, ensure_ascii=False))
    out = Path(arguments.get("out") or "").name
    if (length := len(out.encode())) > MAX_OUT:
        raise ValueError(f"out is {out}, a name of {length} bytes; allowed: up to {MAX_OUT}")


def _require_main_guard(name: str) -> None:
    """End a worker process that calls a verb as it imports the script that started it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as Python itself finds it out
        guard = 'put the calls of a script below: if __name__ == "__main__":'
        sys.stderr.write(f"isopix: a worker process ran the script again, up to {name}(); {guard}\n")
        raise SystemExit(1)


def checked(function: Callable[..., R]) -> Callable[..., R]:
    """Let a function take fields of `Flat` settings as keyword arguments, and check all arguments."""
    arguments = _Arguments(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        return arguments.call(arguments.bind(args, kwargs))

    call.__signature__ = arguments.signature  # type: ignore[attr-defined]
    return call


class _Arguments(Generic[R]):
    def __init__(self, function: Callable[..., R]):
        self.function, self.signature = function, _flat_signature(function)
        hints = get_type_hints(function, include_extras=True)
        self.flat = {name: get_args(hint)[0] for name, hint in hints.items() if FLAT in get_args(hint)[1:]}
        self.names = [*self.signature.parameters, *self.flat]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        unknown = {name: value for name, value in kwargs.items() if name not in self.names}
        if unknown and SETTINGS not in self.names:
            name = next(iter(unknown))
            hint = did_you_mean(name, self.names).rstrip() or f"arguments: {', '.join(self.names)}"
            raise TypeError(f"{self.function.__name__}() has no argument '{name}'; {hint}")
        given = validated(SETTINGS, Mapping[str, Any], kwargs.get(SETTINGS, {})) | unknown
        kwargs = {name: value for name, value in kwargs.items() if name not in (SETTINGS, *unknown)}
        for name in self.flat.keys() & kwargs.keys():
            kwargs = _spread(name, validated(name, self.flat[name], kwargs[name]), kwargs)
        bound = self.signature.bind(*args, **kwargs)
        if given:
            bound.arguments[SETTINGS] = (
                *bound.arguments.get(SETTINGS, ()),
                *(f"{path}={as_yaml(value)}" for path, value in given.items()),
            )
        for name, value in bound.arguments.items():
            bound.arguments[name] = _validated(self.signature.parameters[name], value)
        bound.apply_defaults()
        return bound

    def call(self, bound: inspect.BoundArguments) -> R:
        kwargs = bound.kwargs
        for name, cls in self.flat.items():
            kwargs[name] = cls(**{field.name: kwargs.pop(field.name) for field in dataclasses.fields(cls)})
        with float32_default():
            try:
                return self.function(*bound.args, **kwargs)
            except UnknownSettingError as error:
                if error.hint:
                    raise
                own = "it is an option of its own; " if error.path in self.names else ""
                hint = own or did_you_mean(error.path, self.names)
                raise UnknownSettingError(error.path, hint) from None


@contextmanager
def float32_default() -> Iterator[None]:
    """Make float32 PyTorch's default, whatever a caller has set: weights and random draws depend on it."""
    torch: Any = sys.modules.get("torch")  # without it there is no other default
    default = torch and torch.get_default_dtype()
    if default:
        torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        if default:
            torch.set_default_dtype(default)


def _spread(name: str, settings: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    fields = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    if given := [each for each in fields if each in kwargs]:
        raise ValueError(f"give {name}= or {', '.join(f'{each}=' for each in given)}, not both")
    return {key: value for key, value in kwargs.items() if key != name} | fields


def _validated(parameter: inspect.Parameter, value: Any) -> Any:
    name, hint = parameter.name, parameter.annotation
    if hint is parameter.empty:
        return value
    if name == SETTINGS and any(isinstance(each, Mapping) for each in value):
        allowed = "'steps=3', or keywords: steps=3, or settings={'steps': 3}"
        raise ValueError(f"settings are text, as in {allowed}")
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple(validated(f"{name}[{place}]", hint, each) for place, each in enumerate(value))
    return validated(name, hint, value)


class _OnlyCheckedError(Exception):
    """The arguments of a verb are right, and its work is left to a job."""


def check_job(call: Callable[[], object], num_ranks: int) -> None:
    """Check the arguments of a call of a verb, before its work, for a job of that many processes."""
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


def _flat_signature(function: Callable[..., Any]) -> inspect.Signature:
    hints = get_type_hints(function, include_extras=True)
    found: list[inspect.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        hint = hints.get(each.name, each.annotation)
        if FLAT in get_args(hint)[1:]:
            found += _fields(get_args(hint)[0], each.default)
        else:
            found.append(each.replace(annotation=_described(hint)))
    return inspect.Signature(sorted(found, key=lambda each: each.kind), return_annotation=hints.get("return"))


def _described(hint: Any) -> Any:
    """Return an argument's type with its text as the help of its option."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *extras = get_args(hint)
    return Annotated[kind, *(Parameter(help=each) if isinstance(each, str) else each for each in extras)]


def _fields(cls: type, default: object) -> list[inspect.Parameter]:
    hints = get_type_hints(cls, include_extras=True)
    for name, text in descriptions(cls).items():
        hints[name] = Annotated[hints[name], Parameter(help=" ".join(text.split()))]
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(each.name, kind, default=getattr(default, each.name), annotation=hints[each.name])
        for each in dataclasses.fields(cls)
    ]
