"""Run trials as SLURM jobs, through submitit, an optional package."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from isopix.cluster.executor import Cluster, job_executor
from isopix.cluster.job import requeue
from isopix.train.signals import stopped_by

T = TypeVar("T")


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

    def submit(self, spec: T, slot: int) -> "SlurmHandle":
        return SlurmHandle(self.executor.submit(self.call, spec))


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


class SlurmHandle:
    """A job, waiting or running."""

    def __init__(self, job: Any):
        self.job = job

    def poll(self) -> str | None:
        if not self.job.done():
            return None
        error = self.job.exception()
        if error is None:
            return ""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"job {self.job.job_id}: {reason}"

    def stop(self) -> None:
        """Cancel it: its processes receive SIGTERM and save."""
        self.job.cancel(check=False)

    def kill(self) -> None:
        self.stop()
