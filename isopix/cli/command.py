"""A verb as a command: the options that all commands share, and how its result is printed."""

import inspect
import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from cyclopts import App, Parameter
from rich.protocol import is_renderable

from isopix.cli.console import Json, Plugins, console, say_wrapped, show, show_json
from isopix.cli.launch import Devices, SlurmParameters, check_command, launch_ranks, say_stop, submit
from isopix.core.registry import load_plugin
from isopix.core.signals import Interrupted, exit_code
from isopix.core.slurm import IN_JOB
from isopix.core.verb import Verb, check_job
from isopix.storage.result import Result

KEYWORD = inspect.Parameter.KEYWORD_ONLY


def add_verb(app: App, verb: Verb, place: int) -> None:
    """Add the command of a verb, `probe` or `recipe list`, at a place in the list of commands."""
    *group, word = verb.command.split()
    for name in group:
        if name not in app:
            app.command(App(name=name, help=GROUPS.get(name, ""), sort_key=place))
        app = app[name]
    app.command(_command(verb), name=word, sort_key=place)


# The help of words that have several commands.
GROUPS: dict[str, str] = {
    "convert": "Convert checkpoints from and to Hugging Face, and from OpenAI and timm.",
    "data": "Look at a dataset: pictures, sizes, classes, duplicates, unreadable images.",
    "palette": "Fit, import and inspect color palettes.",
    "recipe": "List recipes; show the settings of one and where each comes from.",
    "study": "Run a study: train, probe and compare many networks.",
}


def _command(verb: Verb) -> Callable[..., None]:
    @wraps(verb.function)
    def run(*args: Any, json: bool = False, plugin: list[Path] | None = None, **options: Any) -> None:
        check_command(verb.command)
        for file in plugin or ():
            load_plugin(file)
        devices = options.pop("devices", None) if verb.parallel else None
        slurm = options.pop("slurm", None) if verb.slurm else None
        if slurm is not None and IN_JOB not in os.environ:
            out = Path(options.get("out") or args[0])
            check = partial(check_job, lambda: verb.function(*args, **options))
            submit(slurm, out, check, devices=devices, parallel=verb.parallel, json=json)
            return
        launch_ranks(devices, options.get("device", "auto"))
        try:
            result = verb.function(*args, **options)
        except Interrupted as stopped:
            print_result(stopped.result, json=json)
            say_stop("", exit_code(stopped))
            raise SystemExit(exit_code(stopped)) from None
        print_result(result, json=json)
        if result.failure:
            raise RuntimeError(result.failure)

    own = map(_option, inspect.signature(verb.function).parameters.values())
    shared = [inspect.Parameter("plugin", KEYWORD, default=None, annotation=Plugins)]
    if verb.parallel:
        shared.append(inspect.Parameter("devices", KEYWORD, default=None, annotation=Devices))
    if verb.slurm:
        shared.append(inspect.Parameter("slurm", KEYWORD, default=None, annotation=SlurmParameters))
    shared.append(inspect.Parameter("json", KEYWORD, default=False, annotation=Json))
    parameters = [*own, *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    named = any(getattr(extra, "name", None) for extra in get_args(parameter.annotation)[1:])
    kind = KEYWORD if named else parameter.kind
    hint = _typed(parameter.annotation)
    if parameter.default == ():
        hint = Annotated[hint, Parameter(show_default=False)]
    if parameter.default is False:
        hint = Annotated[hint, Parameter(negative="")]
    return parameter.replace(kind=kind, annotation=hint)


def _typed(hint: Any) -> Any:
    """Return an option's type: the argument's without what only Python has, and without ranges."""
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        described = [each for each in extras if isinstance(each, Parameter)]
        return Annotated[_typed(inner), *described] if described else _typed(inner)
    if get_origin(hint) in (Union, UnionType):
        inner = [each for each in get_args(hint) if get_origin(each) is not os.PathLike]
        members = [
            _typed(each) for each in inner if each is not object and not getattr(each, "_is_protocol", False)
        ]
        if str in members:  # which stands for other values, such as "8,16" for two numbers
            members = [each for each in members if get_origin(each) is not tuple]
        return Union[tuple(members)]  # noqa: UP007
    if get_origin(hint) is tuple:
        return tuple[tuple(map(_typed, get_args(hint)))]  # type: ignore[misc]
    return hint


def print_result(result: Result, *, json: bool) -> None:
    """Print the tables of a result, its warnings and where it was written; or its record as JSON."""
    if json:
        show_json({**result.record(), "path": None if result.path is None else str(result.path)})
    else:
        if console.is_terminal and is_renderable(result):
            console.print(result, soft_wrap=True)
        for table in result.tables():
            show(table)
        for line in result.notes():
            say_wrapped(line)
