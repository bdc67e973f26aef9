"""Run trials in parallel, each in a process of its own.

Not in a `ProcessPoolExecutor`: a worker that is killed, as for lack of memory, would break the whole pool.
"""

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkServerProcess
from typing import NamedTuple, Protocol, TypeVar

from isopix.core import device as devices
from isopix.core.device import DeviceLike

T = TypeVar("T")

POLL_SECONDS = 0.1


class Job(Protocol):
    def poll(self) -> str | None:
        """Return None while it runs, then an empty text, or the reason if it was killed or failed."""

    def stop(self) -> None:
        """Ask it to save and stop."""

    def kill(self) -> None:
        """End it at once."""


Submit = Callable[[T, int], Job]  # starts a job in a free slot, one of range(size)
Function = Callable[[T, str, int], None]  # of a specification, a device and a number of threads


def run_all(
    specs: Sequence[T],
    submit: Submit[T],
    size: int,
    *,
    ended: Callable[[T, str], object],
    stop: Callable[[], bool],
) -> None:
    """Run jobs in order, `size` at a time; `ended` is called with each that ended, and why if it failed.

    Once `stop` returns true, no job is started and running ones are asked to stop. An exception kills them.
    """
    waiting, stopped = deque(specs), False
    running: dict[int, tuple[T, Job]] = {}  # by slot
    try:
        while running or (waiting and not stopped):
            free = [slot for slot in range(size) if slot not in running]
            for slot in free[: 0 if stopped else len(waiting)]:
                spec = waiting.popleft()
                running[slot] = (spec, submit(spec, slot))
            time.sleep(POLL_SECONDS)
            if not stopped and stop():
                stopped = True
                for _, job in running.values():
                    job.stop()
            for spec, reason in _remove_ended(running):
                if not stopped:
                    ended(spec, reason)
    finally:
        for _, job in running.values():
            job.kill()


def _remove_ended(running: dict[int, tuple[T, Job]]) -> Iterator[tuple[T, str]]:
    for slot, (spec, job) in list(running.items()):
        if (reason := job.poll()) is not None:
            del running[slot]
            yield spec, reason


class Slot(NamedTuple):
    """The device and the number of threads of one worker."""

    device: str
    threads: int


def slots_on(device: DeviceLike, count: int | None = None) -> list[Slot]:
    """Return `count` slots, by default one per GPU or CPU core, that share cores and devices."""
    available, cores = devices.list_devices(device), devices.available_cores()
    size = count or (cores if available[0].type == "cpu" else len(available))
    threads = max(1, cores // size)
    return [Slot(str(available[number % len(available)]), threads) for number in range(size)]


def in_processes(function: Function[T], slots: Sequence[Slot], modules: Sequence[str] = ()) -> Submit[T]:
    """Return what calls a function in a process, forked from a server that has imported `modules` alone.

    A job so costs no imports, and copies no thread or lock of this process.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))

    def submit(spec: T, slot: int) -> Job:
        job = ProcessJob(target=function, args=(spec, *slots[slot]))
        job.start()
        return job

    return submit


class ProcessJob(ForkServerProcess):
    stop = ForkServerProcess.terminate

    def poll(self) -> str | None:
        code = self.exitcode
        if code is None or code == 0:
            return None if code is None else ""
        if code == -signal.SIGKILL:
            return "killed by SIGKILL, possibly out of memory"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
