"""Run trials as SLURM jobs, through submitit, an optional package."""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from isopix.core.signals import stopped_by
from isopix.core.slurm import Cluster, job_executor, requeue

T = TypeVar("T")

QUEUE_SECONDS = 30.0  # between two looks at SLURM's queue
RESULT_SECONDS = 120.0  # in which the result of a job that has left the queue appears on a network disk


class SlurmExecutor(Generic[T]):
    """Runs `function(spec, "auto", None)` in jobs of a cluster, `size` at a time.

    `parameters` are those of submitit: `partition`, `timeout_min`, `gpus_per_node` and so on. The output of
    jobs is in `folder`. A job that is preempted or out of time is requeued and resumes from its last
    checkpoint. Raises what `job_executor` raises.
    """

    def __init__(
        self,
        function: Callable[[T, str, int | None], None],
        folder: Path,
        parameters: Mapping[str, Any],
        *,
        size: int,
        cluster: Cluster = "slurm",
    ):
        self.call, self.size = RequeuedCall(function), size
        self.executor = job_executor(folder, parameters, cluster=cluster)
        self.queue = Queue() if cluster == "slurm" else None

    def submit(self, spec: T, slot: int) -> "SlurmHandle":
        return SlurmHandle(self.executor.submit(self.call, spec), self.queue)


class RequeuedCall(Generic[T]):
    """The call of a job, which is made again after an interruption."""

    def __init__(self, function: Callable[[T, str, int | None], None]):
        self.function = function

    def __call__(self, spec: T) -> None:
        self.function(spec, "auto", None)
        if stopped_by() is not None:
            requeue()

    def checkpoint(self, spec: T) -> Any:
        """Return the call to requeue, when submitit asks for it."""
        import submitit  # noqa: PLC0415 - an extra

        return submitit.helpers.DelayedSubmission(self, spec)


class Queue:
    """The jobs that wait or run. submitit asks `sacct`, which fails on clusters without accounting."""

    def __init__(self) -> None:
        self._jobs: frozenset[str] | None = None
        self._asked = -QUEUE_SECONDS

    def has(self, job: str, submitted: float) -> bool:
        """Return whether a job was in the queue at the last look; also if that was before its submission, or
        SLURM did not answer.
        """
        if time.monotonic() - self._asked >= QUEUE_SECONDS:
            self._asked = time.monotonic()
            self._jobs = _queued_jobs()
        return self._jobs is None or self._asked <= submitted or job in self._jobs


def _queued_jobs() -> frozenset[str] | None:
    """Return the numbers of this user's jobs; None if SLURM does not answer, as while it is restarted."""
    command = ["squeue", "--me", "--noheader", "--format=%A"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return frozenset(found.stdout.split())


class SlurmHandle:
    """A job, waiting or running; `queue` is that of SLURM, None for a job of this machine."""

    def __init__(self, job: Any, queue: Queue | None):
        self.job, self.queue = job, queue
        self.submitted = self.seen = time.monotonic()
        self.patience = RESULT_SECONDS

    def poll(self) -> str | None:
        if not self._has_ended():
            return None
        if self.queue and not self.job.paths.result_pickle.exists():
            return f"job {self.job.job_id}: ended without a result; its output: {self.job.paths.stdout}"
        error = self.job.exception()
        if error is None:
            return ""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"job {self.job.job_id}: {reason}"

    def _has_ended(self) -> bool:
        if self.queue is None:
            return bool(self.job.done())
        if self.job.paths.result_pickle.exists():
            return True
        if self.queue.has(self.job.job_id, self.submitted):
            self.seen = time.monotonic()
            return False
        return time.monotonic() - self.seen > self.patience

    def stop(self) -> None:
        """Cancel it: its processes receive SIGTERM and save."""
        self.patience = 0.0  # it may have no result
        self.job.cancel(check=False)

    def kill(self) -> None:
        self.stop()
