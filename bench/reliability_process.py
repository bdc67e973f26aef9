"""Training processes of the reliability benchmark: forked from a warm one, watched, and killed."""

import ctypes
import mmap
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

TIMED_OUT = "timed out"
POLL = 0.0005  # seconds
ENDED = 75  # exit code of a process that ended itself after `stop_after` steps


class Marks(ctypes.Structure):
    """What a training process reports through memory that it shares, and that survives `kill -9`."""

    loaded: int
    step: int
    is_saving: int
    saves: int
    saving_seconds: float
    stop_after: int
    _fields_ = (
        ("loaded", ctypes.c_int),  # the step that training went on from; -1 before the first step
        ("step", ctypes.c_int),  # the last step that is complete
        ("is_saving", ctypes.c_int),
        ("saves", ctypes.c_int),
        ("saving_seconds", ctypes.c_double),
        ("stop_after", ctypes.c_int),  # the process ends after the checkpoint of this step; 0: never
    )

    def reset(self, stop_after: int) -> None:
        self.loaded, self.step, self.is_saving, self.saves, self.saving_seconds = -1, 0, 0, 0, 0.0
        self.stop_after = stop_after

    def stepped(self, step: int) -> None:
        """Note that the update of a step, counted from 1, is complete."""
        if self.loaded < 0:
            self.loaded = step - 1
        self.step = step

    @contextmanager
    def saving(self, step: int) -> Iterator[None]:
        start, self.is_saving = time.perf_counter(), 1
        yield
        self.is_saving = 0
        self.saves += 1
        self.saving_seconds += time.perf_counter() - start
        if step == self.stop_after > 0:
            os._exit(ENDED)


MARKS = Marks.from_buffer(mmap.mmap(-1, ctypes.sizeof(Marks)))


class Ended(NamedTuple):
    """How a process ended: exit code, negative for a signal, `timed out`, and its output."""

    code: int | str
    output: str


class Process:
    """A forked process that calls `main` and exits with what that returns; only one at a time."""

    def __init__(self, main: Callable[[], int], *, stop_after: int = 0, limit: int | None = None):
        """With `limit`, files of the process may have that many bytes."""
        MARKS.reset(stop_after)
        self.reader, writer = os.pipe()
        self.output = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reader)
            _become(main, writer, limit)
        os.close(writer)

    def watch(self, until: Callable[[], bool], seconds: float) -> bool:
        """Read the output until a condition holds, the process ends or time is over; True at its end."""
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            if select.select([self.reader], [], [], POLL)[0]:
                text = os.read(self.reader, 1 << 16)
                self.output += text
                if not text:
                    return True
        return False

    def kill(self) -> Ended:
        os.kill(self.pid, signal.SIGKILL)  # it has not been waited for, so the number is still its own
        return self.wait()

    def wait(self, seconds: float = 60) -> Ended:
        in_time = self.watch(lambda: False, seconds)
        if not in_time:
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.reader)
        return Ended(code if in_time else TIMED_OUT, self.output.decode(errors="replace"))


def _become(main: Callable[[], int], writer: int, limit: int | None) -> None:
    """Call `main` and exit; after an exception with 1 and a traceback, as Python does."""
    os.setsid()
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.close(writer)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    code = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
