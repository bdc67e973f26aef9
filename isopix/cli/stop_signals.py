"""Answers to stop signals at the command line that do not wait for the step under way."""

import os
import signal
import threading
import time

from isopix.core import ranks
from isopix.train.signals import STOP_SIGNALS, StopSignal, active_request, is_second, raise_on_signals

GRACE = 1.0  # seconds that a second signal leaves to clean up
STOPPED = 75  # exit code EX_TEMPFAIL of sysexits.h: nothing is lost, and batch systems requeue the job


def handle_stop_signals() -> None:
    """Handle stop signals in this process from now on.

    A thread reads them, as Python's own handlers wait for the end of a kernel or of a long call: it says at
    once that training will stop, and after a second signal it ends a process that does not end by itself.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), daemon=True, name="stop signals").start()
    raise_on_signals()


def ignore_stop_signals() -> None:
    """Ignore stop signals from now on: the work is done, and Python would die of one while it ends."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def exit_code(stopped: KeyboardInterrupt) -> int:
    """Return 75 for a batch system's first signal, and 128 + the number of Ctrl-C and of a second signal."""
    number = stopped.signal if isinstance(stopped, StopSignal) else signal.SIGINT
    by_system = isinstance(stopped, StopSignal) and not stopped.at_once and number is not signal.SIGINT
    return STOPPED if by_system else 128 + number


def stop_message(stopped: KeyboardInterrupt) -> str:
    """Return the error message of a stop signal."""
    if str(stopped):
        return str(stopped)
    if exit_code(stopped) == STOPPED and isinstance(stopped, StopSignal):
        return f"stopped by {stopped.signal.name}; the same command starts again"
    return "interrupted"


def _watch(reader: int) -> None:
    first: float | None = None
    while received := os.read(reader, 1):
        number, now = received[0], time.monotonic()
        if number not in STOP_SIGNALS:
            continue
        if first is None:
            first = now
            _announce(signal.Signals(number))
        elif is_second(number, now - first):
            time.sleep(GRACE)
            os._exit(128 + number)


def _announce(number: signal.Signals) -> None:
    """Say that training stops after its step; elsewhere the error message says what has ended."""
    if active_request() is not None and ranks.rank() == 0:
        name = "Ctrl-C" if number is signal.SIGINT else number.name
        text = f"\n{name}: stopping after this step; a second one stops at once\n"
        try:
            os.write(2, text.encode())
        except OSError:  # the terminal is gone
            return
