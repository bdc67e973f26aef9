"""The `isopix` command: its sub-commands are the verbs."""

import os
import sys
from collections.abc import Callable
from functools import partial

from cyclopts import App, CycloptsError, Parameter

from isopix.cli.command import add_verb
from isopix.cli.errors import format_error, with_option_names
from isopix.cli.launch import of_rank, say_error, say_stop
from isopix.cli.output import open_console
from isopix.core import ranks
from isopix.core.signals import errors_as_stops, exit_code, stop_message
from isopix.core.text import printable
from isopix.core.verb import Verb
from isopix.core.version import __version__
from isopix.verbs import VERBS

# Before torch is loaded. A thread that waits for the next parallel loop first spins this often: a thread that
# never spins takes up to half as long again for many short loops, as in sampling; one that spins for long
# takes many times as long once another program wants its core.
if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
    os.environ.update(OMP_WAIT_POLICY="PASSIVE", GOMP_SPINCOUNT="2000")  # for GNU's OpenMP the second counts


ORDER = """demo recipe plan data palette pretrain resume search-lr probe analyze finetune evaluate low-data
sample complete reconstruct score neighbors convert publish verify models study compare reproduce report
doctor studio"""
"""The commands in the order in which a newcomer needs them; others follow."""


def command_app() -> App:
    """Return the commands, with those of verbs."""
    app = App(
        name="isopix",
        help="Pre-train image models by predicting pixels, measure what they have learned, and report it.",
        version=__version__,
        default_parameter=Parameter(negative_iterable=()),
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        console=open_console("stdout"),
    )
    for each in sorted(VERBS.values(), key=_place):
        add_verb(app, each, _place(each))
    app.register_install_completion_command(help="Install completion of commands and options in your shell.")
    return app


def _place(verb: Verb) -> int:
    word, order = verb.command.split()[0], ORDER.split()
    return order.index(word) if word in order else len(order)


def main() -> None:
    """Run one command; one-line errors exit with 2 for wrong input, 1 for failures, 75 for a stop."""
    options: list[str] = []
    try:
        with errors_as_stops():
            _run(options)
    except CycloptsError as error:
        _exit(error, format_error(error), 2)
    except ValueError as error:
        _exit(error, with_option_names(str(error), options), 2)
    except OSError as error:
        has_path = error.filename is not None and error.strerror
        _exit(error, f"{error.filename}: {error.strerror}" if has_path else str(error), 1)
    except RuntimeError as error:
        _exit(error, str(error), 1)
    except ImportError as error:
        _exit(error, f"{error.__cause__ or error}; isopix doctor checks the installation", 1)
    except KeyboardInterrupt as error:
        code = exit_code(error)
        if ranks.rank() > 0:  # rank 0 says it
            ranks.end_process(code)
        _exit(error, stop_message(error), code, say=partial(say_stop, code=code))


def _run(options: list[str]) -> None:
    command, given, _ = command_app().parse_args(sys.argv[1:])
    parameters = given.signature.parameters.values()
    options += [each.name for each in parameters if each.kind == each.KEYWORD_ONLY]
    command(*given.args, **given.kwargs)


def _exit(error: BaseException, message: str, code: int, say: Callable[[str], None] = say_error) -> None:
    if os.environ.get("ISOPIX_DEBUG"):
        raise error
    first = next(iter(message.strip().splitlines()), type(error).__name__)
    say(f"isopix: {printable(of_rank(first))}")
    ranks.end_process(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
