"""Commands as SLURM jobs: `--slurm` checks a command and submits it; in the job it runs as elsewhere."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple, cast

from cyclopts import Parameter

from isopix.cli.console import say, show_json, warn
from isopix.cluster.executor import Cluster, job_executor
from isopix.cluster.job import join_ranks, requeue
from isopix.core import ranks
from isopix.core.command_line import command_line
from isopix.core.overrides import parse
from isopix.core.signals import STOPPED, handle_stop_signals

SlurmParameters = Annotated[
    list[str] | None,
    Parameter(
        name="--slurm",
        consume_multiple=True,
        negative="",
        help="Run as a SLURM job with these submitit parameters, e.g. --slurm partition=gpu timeout_min=240.",
    ),
]

IN_JOB = "ISOPIX_JOB"  # the variable that a job sets for its own command
CANCEL: dict[Cluster, str] = {"slurm": "scancel {}", "local": "kill -INT {}"}


class JobRequest(NamedTuple):
    """What `--slurm` asks for: the parameters of submitit, and the number of processes of the job."""

    cluster: Cluster
    parameters: Mapping[str, Any]
    num_ranks: int


def is_to_submit(slurm: list[str] | None) -> bool:
    """Whether a command is to be submitted, and is not that of the job."""
    return slurm is not None and IN_JOB not in os.environ


def submit(
    slurm: list[str] | None,
    out: Path,
    check: Callable[[int], None],
    *,
    devices: int | None = None,
    parallel: bool = True,
    json: bool,
) -> None:
    """Submit this command as a job, after `check` of its number of processes, and print how to follow it.

    Its output is beside the folder `out`. Raises ValueError for wrong parameters, and for several processes
    of a command that is not `parallel`.
    """
    request = _read(_parameters(slurm or ()), devices=devices, parallel=parallel)
    folder = out.absolute().with_name(f"{out.absolute().name}.slurm")
    executor = job_executor(folder, request.parameters, cluster=request.cluster)
    check(request.num_ranks)
    import submitit  # noqa: PLC0415 - an extra

    with submitit.helpers.clean_env(), redirect_stderr(StringIO()):  # which repeats sbatch's errors
        job = executor.submit(CommandJob(tuple(sys.argv[1:])))
    log, cancel = job.paths.stdout, CANCEL[request.cluster].format(job.job_id)
    if json:
        show_json({"job": job.job_id, "run": str(out), "output": str(log), "cancel": cancel})
        return
    say(f"submitted job {job.job_id}: {command_line(*sys.argv[1:])}")
    say(f"watch with: tail -F {quote(str(log))}")
    say(f"cancel with: {cancel}")


def _parameters(words: Sequence[str]) -> dict[str, Any]:
    for word in words:
        if word.partition("=")[0] in ("", word):
            raise ValueError(f"--slurm has '{word}'; write NAME=VALUE, as in partition=gpu")
    return parse(words)


def _read(given: dict[str, Any], *, devices: int | None, parallel: bool) -> JobRequest:
    """Return what the parameters ask for. A task is a process with a GPU of its own."""
    cluster = given.pop("cluster", "slurm")
    if cluster not in CANCEL:
        raise ValueError(f"cluster is {cluster!r}; allowed: {', '.join(CANCEL)}")
    if devices is not None:
        raise ValueError(f"--devices is for this machine; with --slurm write gpus_per_node={devices}")
    if "gpus_per_task" in given:
        raise ValueError("gpus_per_task hides the GPUs of a machine from each other; use gpus_per_node")
    counts = {name: given.get(name, 1) for name in ("nodes", "gpus_per_node")}
    tasks = given.get("tasks_per_node", counts["gpus_per_node"] or 1)
    for name, count in {**counts, "tasks_per_node": tasks}.items():
        if not isinstance(count, int) or count < (name != "gpus_per_node"):
            raise ValueError(f"{name} is {count}; allowed: {1 * (name != 'gpus_per_node')} or more")
    if tasks != counts["gpus_per_node"] and given.get("gpus_per_node"):
        raise ValueError(
            f"tasks_per_node is {tasks} and gpus_per_node {given['gpus_per_node']}; each process has one GPU"
        )
    num_ranks = counts["nodes"] * tasks
    if num_ranks > 1 and not parallel:
        raise ValueError(f"this command runs in one process, not in {num_ranks} (nodes x gpus_per_node)")
    defaults = {"name": "isopix", "stderr_to_stdout": True}
    return JobRequest(cast(Cluster, cluster), {**defaults, **given, "tasks_per_node": tasks}, num_ranks)


class CommandJob:
    """A command that runs as a job, in one process for each task, and again after each requeue."""

    def __init__(self, words: tuple[str, ...], requeues: int = 0):
        self.words, self.requeues = words, requeues

    def __call__(self) -> None:
        os.environ[IN_JOB] = "1"
        os.environ.setdefault("SLURM_RESTART_COUNT", str(self.requeues))  # which submitit's local jobs lack
        join_ranks()
        sys.argv = ["isopix", *self.words]
        handle_stop_signals()
        try:
            importlib.import_module("isopix.cli.main").main()  # which reads the arguments
        except SystemExit as ended:
            if ended.code != STOPPED:
                raise
            self._requeue()
            if ranks.rank() == 0:
                raise

    def _requeue(self) -> None:
        try:
            requeue()
        except RuntimeError as error:
            if ranks.rank() == 0:
                warn(f"isopix: {error}")

    def checkpoint(self) -> Any:
        """Return the call to requeue, when submitit asks for it."""
        import submitit  # noqa: PLC0415 - an extra

        return submitit.helpers.DelayedSubmission(CommandJob(self.words, self.requeues + 1))
