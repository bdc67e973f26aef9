"""Run trials in parallel, each in a process of its own.

`concurrent.futures.ProcessPoolExecutor` does not serve here: a worker that is killed breaks the whole pool,
and running work cannot be asked to stop. A trial may run out of memory, and the others have to go on.
"""

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from isopix.core import device as devices
from isopix.core.device import DeviceLike

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

POLL_SECONDS = 0.1


@runtime_checkable
class JobHandle(Protocol):
    """A job that was submitted."""

    def poll(self) -> str | None:
        """Return None while it runs, then an empty text, or the reason if it was killed or failed."""

    def stop(self) -> None:
        """Ask it to save and stop."""

    def kill(self) -> None:
        """End it at once."""


@runtime_checkable
class Executor(Protocol[T_contra]):
    """Runs up to `size` jobs at a time."""

    @property
    def size(self) -> int: ...
    def submit(self, spec: T_contra, slot: int) -> JobHandle:
        """Start a job in a free slot, one of range(size)."""


class Slot(NamedTuple):
    """The device and the number of threads of one worker."""

    device: str
    threads: int | None


def slots_on(device: DeviceLike, count: int | None = None) -> list[Slot]:
    """Return `count` slots, by default one per GPU or CPU core, that share the cores and the devices of this
    machine. Raises ValueError for an unavailable device.
    """
    available, cores = devices.list_devices(device), devices.available_cores()
    size = count or (cores if available[0].type == "cpu" else len(available))
    threads = max(1, cores // size)
    return [Slot(str(available[number % len(available)]), threads) for number in range(size)]


class ProcessExecutor(Generic[T]):
    """Runs `function(spec, device, threads)` in processes on this machine.

    They are forked from a server process that has imported `modules` and done nothing else: a job costs no
    imports, and copies no thread or lock of this process.
    """

    def __init__(
        self,
        function: Callable[[T, str, int | None], None],
        slots: Sequence[Slot],
        modules: Sequence[str] = (),
    ):
        self.function, self.slots = function, slots
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(list(modules))

    @property
    def size(self) -> int:
        return len(self.slots)

    def submit(self, spec: T, slot: int) -> "ProcessHandle":
        process = self.context.Process(target=self.function, args=(spec, *self.slots[slot]))
        process.start()
        return ProcessHandle(process)


class ProcessHandle:
    """A job in a process."""

    def __init__(self, process: ForkServerProcess):
        self.process = process

    def poll(self) -> str | None:
        code = self.process.exitcode
        if code is None or code == 0:
            return None if code is None else ""
        if code == -signal.SIGKILL:
            return "killed by SIGKILL, possibly out of memory"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def stop(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


@dataclass(frozen=True)
class ExecutorObserver(Generic[T]):
    """Follows the jobs: `job_ended` is called with each job that ended, and the reason if it was killed or
    failed; `stop` returns whether to stop.
    """

    job_ended: Callable[[T, str], None]
    stop: Callable[[], bool]


def run_all(specs: Sequence[T], executor: Executor[T], observer: ExecutorObserver[T]) -> None:
    """Run all jobs in their order.

    Once the observer's `stop` is true, no job is started and running ones are asked to stop; their ends are
    not reported. An exception kills them.
    """
    waiting, stopped = deque(specs), False
    running: dict[int, tuple[T, JobHandle]] = {}  # by slot
    try:
        while running or (waiting and not stopped):
            free = [slot for slot in range(executor.size) if slot not in running]
            for slot in free[: 0 if stopped else len(waiting)]:
                spec = waiting.popleft()
                running[slot] = (spec, executor.submit(spec, slot))
            time.sleep(POLL_SECONDS)
            if not stopped and observer.stop():
                stopped = True
                for _, job in running.values():
                    job.stop()
            for spec, reason in _remove_ended(running):
                if not stopped:
                    observer.job_ended(spec, reason)
    finally:
        for _, job in running.values():
            job.kill()


def _remove_ended(running: dict[int, tuple[T, JobHandle]]) -> Iterator[tuple[T, str]]:
    """Remove and yield the jobs that have ended, with the reasons."""
    for slot, (spec, job) in list(running.items()):
        reason = job.poll()
        if reason is not None:
            del running[slot]
            yield spec, reason
