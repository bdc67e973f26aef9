"""Standard output and error that may be closed, as with a terminal or by `head`: training saves and stops."""

import os
import signal
import sys
from collections.abc import Callable
from typing import IO, Any, Literal, cast

from rich.console import Console

from isopix.core.signals import active_request

StreamName = Literal["stdout", "stderr"]

TITLES: dict[StreamName, str] = {"stdout": "standard output", "stderr": "standard error"}
CLOSED_PIPE = 128 + 13  # exit code of a program that SIGPIPE ends, which Windows has not


class Output:
    """`sys.stdout` or `sys.stderr`, as it is at every call.

    Where it cannot be written to, what follows is lost: during training a stop signal, at a pipe that its
    reader has closed, as `head` does, the end without a message, else OSError.
    """

    def __init__(self, name: StreamName):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "rich_proxied_file":  # a console would write to that stream instead
            raise AttributeError(attribute)
        return getattr(self._stream(), attribute)

    def write(self, text: str) -> int:
        return self._attempt(lambda: self._stream().write(text))

    def flush(self) -> None:
        self._attempt(self._stream().flush)

    def _stream(self) -> Any:
        stream = getattr(sys, self._name)
        return getattr(stream, "rich_proxied_file", stream)  # a live display replaces the stream

    def _attempt(self, act: Callable[[], int | None]) -> int:
        try:
            return act() or 0
        except OSError as error:
            # The interpreter would write the rest when it ends, and fail (Python's "Note on SIGPIPE").
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream().fileno())
            if request := active_request():
                request.receive(signal.SIGHUP)
                return 0
            if isinstance(error, BrokenPipeError):
                sys.exit(CLOSED_PIPE)
            raise OSError(error.errno, error.strerror, TITLES[self._name]) from error


def open_console(name: StreamName) -> Console:
    """Return a console that writes to standard output or error."""
    return Console(highlight=False, file=cast(IO[str], Output(name)))


def replace_closed_streams() -> None:
    """Let streams with which the process was not started, as after `>&-`, lead to the null device."""
    # In this order they get the file descriptors 0 to 2, which no other file may have.
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w"))
