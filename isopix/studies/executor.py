"""Workers: tasks side by side, each in a process of its own, so that one that dies takes nothing with it."""

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

PAUSE = 0.1  # seconds between two looks at those that are at work


@runtime_checkable
class Job(Protocol):
    """A task at work."""

    def ended(self) -> str | None:
        """None while it works; then nothing if it ended by itself, else how it died."""

    def stop(self) -> None:
        """Ask it to save and stop."""

    def kill(self) -> None:
        """End it at once."""


@runtime_checkable
class Crew(Protocol[T_contra]):
    """Where tasks are done, so many at a time."""

    @property
    def size(self) -> int: ...
    def start(self, task: T_contra, place: int) -> Job:
        """Begin a task in a place, 0 up to `size`, that is free."""


class Place(NamedTuple):
    """What a worker of this machine has to itself."""

    device: str
    threads: int | None


class Processes(Generic[T]):
    """A crew of processes on this machine; each calls `function(task, device, threads)`.

    They are forked from one process that has imported `modules` and done nothing else: a task costs no
    import of its own, and no thread or lock of this process is copied.
    """

    def __init__(
        self,
        function: Callable[[T, str, int | None], None],
        places: Sequence[Place],
        modules: Sequence[str] = (),
    ):
        self.function, self.places = function, places
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(list(modules))

    @property
    def size(self) -> int:
        return len(self.places)

    def start(self, task: T, place: int) -> "ProcessJob":
        process = self.context.Process(target=self.function, args=(task, *self.places[place]))
        process.start()
        return ProcessJob(process)


class ProcessJob:
    """A process at work."""

    def __init__(self, process: ForkServerProcess):
        self.process = process

    def ended(self) -> str | None:
        code = self.process.exitcode
        if code is None or code == 0:
            return None if code is None else ""
        if code == -signal.SIGKILL:
            return "killed by SIGKILL, as systems do where memory is out"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def stop(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


@dataclass(frozen=True)
class Watch(Generic[T]):
    """Who looks on: `ended` is told of each task that ended, and how it died if it did; `stop` is asked, and
    `look` told which tasks are at work, now and then.
    """

    ended: Callable[[T, str], None]
    stop: Callable[[], bool]
    look: Callable[[Sequence[T]], None] = lambda running: None


def side_by_side(tasks: Sequence[T], crew: Crew[T], watch: Watch[T]) -> None:
    """Do all tasks in their order.

    Once the watch's `stop` turns true no task is begun, those at work are asked to stop, and their ends are
    not told. An exception ends them at once.
    """
    floor, stopped = _Floor(tasks, crew), False
    try:
        while floor.running or (floor.waiting and not stopped):
            if not stopped:
                floor.fill()
            time.sleep(PAUSE)
            if not stopped and watch.stop():
                stopped = True
                floor.stop()
            for task, fate in floor.ended():
                if not stopped:
                    watch.ended(task, fate)
            watch.look([task for task, _ in floor.running.values()])
    finally:
        floor.clear()


class _Floor(Generic[T]):
    """The places of a crew, the tasks at work in them, and those that wait."""

    def __init__(self, tasks: Sequence[T], crew: Crew[T]):
        self.waiting, self.crew = deque(tasks), crew
        self.running: dict[int, tuple[T, Job]] = {}

    def fill(self) -> None:
        """Begin a task in every free place."""
        for place in range(self.crew.size):
            if self.waiting and place not in self.running:
                task = self.waiting.popleft()
                self.running[place] = (task, self.crew.start(task, place))

    def ended(self) -> Iterator[tuple[T, str]]:
        """Those that ended since, and how; they are then no longer at work."""
        for place, (task, job) in list(self.running.items()):
            fate = job.ended()
            if fate is not None:
                del self.running[place]
                yield task, fate

    def stop(self) -> None:
        for _, job in self.running.values():
            job.stop()

    def clear(self) -> None:
        for _, job in self.running.values():
            job.kill()
