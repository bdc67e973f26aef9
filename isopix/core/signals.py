"""Stop signals: in training the first ends it after its step, a second one at once; elsewhere the first."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

from isopix.core import ranks

T = TypeVar("T")
# Ctrl-C; a batch system's notice of preemption; SLURM's --signal=USR1@seconds; a closed terminal; submitit's
# notice of the time limit or of a preemption.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGUSR2)
# Seconds within which a signal is the same notice: batch systems and `timeout` send one to the process and
# one to its group.
REPEATED = 0.5
RANK_SECONDS = 4  # in which a rank ends without training
STOPPED = 75  # exit code EX_TEMPFAIL of sysexits.h: nothing is lost, and batch systems requeue the job


class StopSignal(KeyboardInterrupt):
    """A stop signal ended the work where it was; `at_once` if an earlier one was still waiting for a step."""

    def __init__(self, number: int, *, at_once: bool):
        super().__init__()
        self.signal, self.at_once = signal.Signals(number), at_once


class StopRequest:
    """The first stop `signal` that this process received, or None."""

    def __init__(self, received: signal.Signals | None = None) -> None:
        self.signal, self._since = received, time.monotonic()

    def receive(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal: record the first, raise StopSignal on a later one that is no repetition."""
        repeated = time.monotonic() - self._since <= REPEATED or number == signal.SIGUSR2
        if self.signal is None:
            self.signal, self._since = signal.Signals(number), time.monotonic()
            _Process.received = self.signal
            _announce(self.signal)
        elif number == signal.SIGINT or not repeated:
            raise StopSignal(number, at_once=True)


class _Process:
    """What the process has received: the request that is being honored, and a signal that was raised."""

    request: StopRequest | None = None
    raised: signal.Signals | None = None
    received: signal.Signals | None = None
    announces: bool = False


def hang_up() -> bool:
    """Stop the training that is under way, as SIGHUP does; return whether there is one."""
    if _Process.request:
        _Process.request.receive(signal.SIGHUP)
    return _Process.request is not None


def stopped_by() -> signal.Signals | None:
    """Return the stop signal that this process has received; None if there was none."""
    return _Process.received


def handle_stop_signals() -> None:
    """Let stop signals raise StopSignal, but those that are ignored (`nohup`) or have a handler."""
    ordinary = (signal.SIG_DFL, signal.default_int_handler)
    for number in STOP_SIGNALS:
        if signal.getsignal(number) in ordinary:
            signal.signal(number, _raise)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    sys.unraisablehook = _report_unraisable
    _Process.announces = multiprocessing.parent_process() is None


@contextmanager
def blocked_stop_signals() -> Iterator[None]:
    """Let a process that is started inside receive stop signals when it handles them, and not before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def handled_by(handler: "signal._HANDLER") -> Iterator[None]:
    """Let a function, or SIG_DFL, handle stop signals inside, but ignored ones; threads receive none."""
    before = dict[signal.Signals, "signal._HANDLER"]()
    if threading.current_thread() is threading.main_thread():
        heeded = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, one in before.items():
            signal.signal(number, signal.SIG_DFL if one is None else one)


def ignore_stop_signals() -> None:
    """Ignore stop signals from now on: the work is done, or the process that started this one decides."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Record stop signals inside the context."""
    # A signal may have been raised where Python ignores exceptions, such as in a finalizer.
    request = StopRequest(_Process.raised)
    outer, _Process.request = _Process.request, request
    try:
        with handled_by(request.receive):
            yield request
    finally:
        _Process.request = outer


@contextmanager
def with_resume_hint(run: Path, resume_command: str) -> Iterator[None]:
    """Add the command that resumes the run to a KeyboardInterrupt, if a checkpoint has been saved."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        saved = sorted(run.glob("**/checkpoints/step-*"))
        if saved and not isinstance(stopped, Interrupted):
            stopped.args = (f"interrupted; last checkpoint: {saved[-1]}; resume with: {resume_command}",)
        raise


@contextmanager
def errors_as_stops() -> Iterator[None]:
    """Raise StopSignal in place of an error that a library made of it, as NumPy does while it is imported."""
    try:
        yield
    except Exception as error:
        if _Process.raised is None:
            raise
        raise StopSignal(_Process.raised, at_once=False) from error


class Interrupted(KeyboardInterrupt, Generic[T]):
    """Work was stopped (Ctrl-C, SIGTERM, SIGUSR1) and has been saved; `result` is the partial result."""

    def __init__(self, message: str, result: T):
        super().__init__(message)
        self.result = result


def exit_code(stopped: KeyboardInterrupt) -> int:
    """Return 75 for saved work and for a batch system's first signal, else 128 + the number of the signal."""
    if isinstance(stopped, Interrupted):
        return STOPPED
    if not isinstance(stopped, StopSignal):
        return 128 + signal.SIGINT
    by_system = not stopped.at_once and stopped.signal is not signal.SIGINT
    return STOPPED if by_system else 128 + stopped.signal


def end_launched(stopped: KeyboardInterrupt) -> None:
    """End a rank of `--devices` by its signal, unless it has a message: its launcher prints one."""
    if ranks.LAUNCHED in os.environ and isinstance(stopped, StopSignal) and not str(stopped):
        ranks.end_process(-stopped.signal)


def stop_message(stopped: KeyboardInterrupt) -> str:
    """Return the error message of a stop signal."""
    if str(stopped) or not isinstance(stopped, StopSignal) or exit_code(stopped) != STOPPED:
        return str(stopped) or "interrupted"
    return f"stopped by {stopped.signal.name}; the same command starts again"


def _announce(number: signal.Signals) -> None:
    if _Process.announces and ranks.rank() == 0:
        name = "Ctrl-C" if number is signal.SIGINT else number.name
        with suppress(OSError):  # the terminal is gone
            os.write(2, f"\n{name}: stopping after this step; a second one stops at once\n".encode())


def _raise(number: int, frame: FrameType | None) -> None:
    _Process.raised = _Process.received = signal.Signals(number)
    if ranks.are_started():  # code that swallows the exception would wait for other ranks, which have ended
        signal.alarm(RANK_SECONDS)
    raise StopSignal(number, at_once=False)


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    if not isinstance(unraisable.exc_value, StopSignal):  # it is remembered, and honored by the next training
        sys.__unraisablehook__(unraisable)
