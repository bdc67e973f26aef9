"""The `isopix` command: its commands are the verbs."""

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from cyclopts import App, CycloptsError, Group, Parameter
from rich.protocol import is_renderable

from isopix.cli import launch
from isopix.cli.console import (
    Json,
    Plugins,
    console,
    open_console,
    say,
    say_wrapped,
    show_json,
    show_table,
    warn,
)
from isopix.cli.errors import format_error, with_option_names
from isopix.core import ranks
from isopix.core.registry import load_plugin
from isopix.core.signals import Interrupted, end_launched, errors_as_stops, exit_code, stop_message
from isopix.core.slurm import IN_JOB
from isopix.core.text import expand_home, printable
from isopix.core.verb import Verb, check_job
from isopix.core.version import __version__
from isopix.storage.atomic import final_paths
from isopix.storage.result import Result
from isopix.verbs import VERBS

# Before torch is loaded. A thread that waits for the next parallel loop first spins this often: a thread that
# never spins takes up to half as long again for many short loops, as in sampling; one that spins for long
# takes many times as long once another program wants its core.
if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
    os.environ.update(OMP_WAIT_POLICY="PASSIVE", GOMP_SPINCOUNT="2000")  # for GNU's OpenMP the second counts


KEYWORD = inspect.Parameter.KEYWORD_ONLY
COMMANDS = {
    "Start": ("demo", "list", "show", "plan", "data", "palette", "doctor"),
    "Train": ("pretrain", "finetune", "resume"),
    "Measure": ("probe", "evaluate", "compare", "analyze", "score", "neighbors", "features", "predict"),
    "Pictures": ("sample", "complete", "reconstruct", "studio"),
    "Share": ("report", "export", "import"),
    "Papers": ("reproduce", "claims"),
}
"""The commands of each panel of the help, in the order in which a newcomer needs them."""


def command_app() -> App:
    """Return the commands, with those of verbs."""
    app = App(
        name="isopix",
        help="Pre-train image models by predicting pixels, measure what they have learned, and report it.",
        version=__version__,
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        console=open_console("stdout"),
        group_commands=Group.create_ordered("Options", sort_key=1),
    )
    no_empty = Parameter(negative_iterable=())  # for each command, as the app's is not in the documentation
    for title, words in COMMANDS.items():
        panel = Group.create_ordered(title, sort_key=0)
        for n, word in enumerate(words):
            app.command(_command(VERBS[word]), name=word, group=panel, sort_key=n, default_parameter=no_empty)
    app.register_install_completion_command(help="Install completion of commands and options in your shell.")
    return app


def main() -> None:
    """Run one command; one-line errors exit with 2 for wrong input, 1 for failures, 75 for a stop."""
    options = dict[str, Any]()
    try:
        with errors_as_stops():
            _run(options)
    except CycloptsError as error:
        _exit(error, format_error(error), 2)
    except ValueError as error:
        _exit(error, with_option_names(str(error), options, sys.argv), 2)
    except OSError as error:
        _exit(error, _of_file(error, str(options.get("out"))), 1)
    except (RuntimeError, MemoryError) as error:
        _exit(error, str(error), 1)
    except ImportError as error:
        _exit(error, f"{error.__cause__ or error}; isopix doctor checks the installation", 1)
    except KeyboardInterrupt as error:
        end_launched(error)
        code = exit_code(error)
        if ranks.rank() > 0:  # rank 0 says it
            ranks.end_process(code)
        _exit(error, stop_message(error), code)


def _run(options: dict[str, Any]) -> None:
    command, given, _ = command_app().parse_args(sys.argv[1:])
    parameters = given.signature.parameters.values()
    options |= {each.name: given.kwargs.get(each.name) for each in parameters if each.kind == KEYWORD}
    command(*given.args, **given.kwargs)


def _of_file(error: OSError, out: str) -> str:
    """Return an error with its file, and the option `out` where it is that file, or in a folder of it."""
    if error.filename is None or not error.strerror:
        return str(error)
    path = final_paths(str(error.filename))
    option = f"--out is {out}; " if f"{out}/".startswith(f"{path}/") else ""
    return f"{option}{path}: {error.strerror}"


def _exit(error: BaseException, message: str, code: int) -> None:
    if os.environ.get("ISOPIX_DEBUG"):
        raise error
    first = next(iter(message.strip().splitlines()), type(error).__name__)
    with suppress(OSError):  # standard error is full
        warn(f"isopix: {printable(launch.of_rank(final_paths(first)))}")
    ranks.end_process(code)
    sys.exit(code)


def _command(verb: Verb) -> Callable[..., None]:
    @wraps(verb.function)
    def run(*args: Any, json: bool = False, plugin: list[Path] | None = None, **options: Any) -> None:
        launch.check_command(verb.command)
        for file in plugin or ():
            load_plugin(file)
        devices = options.pop("devices", None) if verb.parallel else None
        slurm = options.pop("slurm", None) if verb.slurm else None
        if slurm is not None and IN_JOB not in os.environ:
            out = Path(expand_home(options.get("out") or args[0]))
            check = partial(check_job, lambda: verb.function(*args, **options))
            launch.submit(slurm, out, check, devices=devices, parallel=verb.parallel, json=json)
            return
        launch.launch_ranks(devices, options.get("device", "auto"))
        try:
            result = verb.function(*args, **options)
        except Interrupted as stopped:
            print_result(stopped.result, json=json)
            raise SystemExit(exit_code(stopped)) from None
        print_result(result, json=json)
        if result.failure:
            raise RuntimeError(result.failure)

    own = map(_option, inspect.signature(verb.function).parameters.values())
    shared = [inspect.Parameter("plugin", KEYWORD, default=None, annotation=Plugins)]
    if verb.parallel:
        shared.append(inspect.Parameter("devices", KEYWORD, default=None, annotation=launch.Devices))
    if verb.slurm:
        shared.append(inspect.Parameter("slurm", KEYWORD, default=None, annotation=launch.SlurmParameters))
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
        members = [_typed(each) for each in inner if not getattr(each, "_is_protocol", each is object)]
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
    elif result.document:
        for line in result.document.splitlines():
            say(line)
    else:
        if console.is_terminal and is_renderable(result):
            console.print(result, soft_wrap=True)
        for table in result.tables():
            show_table(table)
        for line in result.notes():
            say_wrapped(line)
