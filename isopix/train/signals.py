"""Being asked to stop: the first signal ends the run after its step, a second Ctrl-C ends it at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; a batch system's notice of preemption; SLURM's --signal=USR1@seconds.
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """The first `signal` that asked this process to stop, or None."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """A signal handler: remember the first; raises KeyboardInterrupt on a Ctrl-C after it."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or signal.Signals(number)


@contextmanager
def stop_requested() -> Iterator[StopRequest]:
    """Listen for signals inside; Python lets only the main thread do so, elsewhere none is ever reported."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.receive) for number in ASKING}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
