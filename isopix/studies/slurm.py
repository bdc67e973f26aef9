"""Run trials as SLURM jobs, through submitit, an optional package."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")

# Parameters with one name on every cluster; submitit takes all others as slurm_NAME.
SHARED_PARAMETERS = (
    *("mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "timeout_min", "name"),
    "stderr_to_stdout",
)


class SlurmExecutor(Generic[T]):
    """Runs `function(spec, "auto", None)` in jobs of a cluster, `size` at a time.

    `parameters` are those of submitit: `partition`, `timeout_min`, `gpus_per_node` and so on. The output of
    jobs is in `folder`. A job that is preempted or out of time is requeued and resumes from its last
    checkpoint. Raises ValueError without submitit and for unknown parameters, RuntimeError without a cluster.
    """

    def __init__(
        self,
        function: Callable[[T, str, int | None], None],
        folder: Path,
        parameters: Mapping[str, Any],
        *,
        size: int,
        cluster: Literal["slurm", "local"] = "slurm",
    ):
        try:
            import submitit  # noqa: PLC0415 - an extra
        except ImportError:
            raise ValueError("SLURM jobs need submitit: pip install 'isopix[slurm]'") from None
        self.call, self.size = RequeuedCall(function), size
        self.executor = submitit.AutoExecutor(folder=folder / "%j", cluster=cluster)
        given = {
            key if key in SHARED_PARAMETERS else f"slurm_{key}": each for key, each in parameters.items()
        }
        try:
            self.executor.update_parameters(**given)
        except (NameError, TypeError, AssertionError) as error:
            raise ValueError(f"submitit does not accept these parameters: {error}") from None

    def submit(self, spec: T, slot: int) -> "SlurmHandle":
        return SlurmHandle(self.executor.submit(self.call, spec))


class RequeuedCall(Generic[T]):
    """The call of a job, which is made again after an interruption."""

    def __init__(self, function: Callable[[T, str, int | None], None]):
        self.function = function

    def __call__(self, spec: T) -> None:
        self.function(spec, "auto", None)

    def checkpoint(self, spec: T) -> Any:
        """Return the call to requeue, when submitit asks before a job is preempted."""
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
