"""Stop requests: the first signal ends a run after its step, a second Ctrl-C at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; a batch system's notice of preemption; SLURM's --signal=USR1@seconds.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """The first stop `signal` that this process received, or None."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: record the first; raises KeyboardInterrupt on a Ctrl-C after it."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or signal.Signals(number)


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Record stop signals inside the context; Python delivers signals to the main thread only, so that other
    threads never receive one.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.receive) for number in STOP_SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
