"""Standard output and error that may be closed during training, as with a terminal: it saves and stops."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from isopix.train.signals import active_request


@runtime_checkable
class _Stream(Protocol):
    """What is used of a standard stream."""

    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...
    def fileno(self) -> int: ...


class Output:
    """`sys.stdout` or `sys.stderr`, as it is at every call.

    Where training is under way and it cannot be written to, that is a stop signal, and what is written
    afterwards is lost.
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "rich_proxied_file":  # a console would write to that stream instead
            raise AttributeError(attribute)
        return getattr(self._stream(), attribute)

    def write(self, text: str) -> int:
        """Write text."""
        return self._attempt(lambda: self._stream().write(text))

    def flush(self) -> None:
        """Flush what was written."""
        self._attempt(self._stream().flush)

    def _stream(self) -> "_Stream":
        stream = getattr(sys, self._name)
        proxied: _Stream = getattr(stream, "rich_proxied_file", stream)  # a live display replaces the stream
        return proxied

    def _attempt(self, act: Callable[[], int | None]) -> int:
        try:
            return act() or 0
        except OSError:
            request = active_request()
            if request is None:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream().fileno())
            request.receive(signal.SIGHUP)
            return 0
