"""SLURM: tasks as jobs of a cluster, through submitit, an extra."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")

# What submitit calls the same on every cluster; all else it takes as slurm_NAME.
SHARED = (
    "mem_gb",
    "nodes",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "timeout_min",
    "name",
    "stderr_to_stdout",
)


class Slurm(Generic[T]):
    """A crew of jobs, `size` at a time; each calls `function(task, "auto", None)` on the machine it is given.

    `parameters` are those of submitit: `partition`, `timeout_min`, `gpus_per_node` and so on. What the jobs
    print lies in `folder`. A job that its cluster preempts, or whose time is over, is queued again and goes
    on from its last checkpoint. Raises ValueError without submitit, and for unknown parameters; RuntimeError
    where there is no cluster.
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
            raise ValueError("jobs of SLURM need submitit: pip install 'isopix[slurm]'") from None
        self.call, self.size = Requeued(function), size
        self.executor = submitit.AutoExecutor(folder=folder / "%j", cluster=cluster)
        given = {key if key in SHARED else f"slurm_{key}": value for key, value in parameters.items()}
        try:
            self.executor.update_parameters(**given)
        except (NameError, TypeError, AssertionError) as error:
            raise ValueError(f"submitit does not take these parameters: {error}") from None

    def start(self, task: T, place: int) -> "SlurmJob":
        return SlurmJob(self.executor.submit(self.call, task))


class Requeued(Generic[T]):
    """The call that a job makes, and what it makes again after it was interrupted: the same."""

    def __init__(self, function: Callable[[T, str, int | None], None]):
        self.function = function

    def __call__(self, task: T) -> None:
        self.function(task, "auto", None)

    def checkpoint(self, task: T) -> Any:
        """What submitit asks for before a job loses its machine."""
        import submitit  # noqa: PLC0415 - an extra

        return submitit.helpers.DelayedSubmission(self, task)


class SlurmJob:
    """A job, waiting or at work."""

    def __init__(self, job: Any):
        self.job = job

    def ended(self) -> str | None:
        if not self.job.done():
            return None
        error = self.job.exception()
        if error is None:
            return ""
        said = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return f"job {self.job.job_id}: {said}"

    def stop(self) -> None:
        """Its processes are sent SIGTERM, and save."""
        self.job.cancel(check=False)

    def kill(self) -> None:
        self.stop()
