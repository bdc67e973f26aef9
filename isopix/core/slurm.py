"""Jobs of SLURM by submitit, an optional package: executor, ranks and requeue."""

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from isopix.core import ranks
from isopix.core.signals import STOPPED, handle_stop_signals, stopped_by
from isopix.core.text import error_line

Cluster = Literal["slurm", "local"]

# Parameters with one name on every cluster; submitit takes all others as slurm_NAME.
SHARED_PARAMETERS = (
    *("mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "timeout_min", "name"),
    "stderr_to_stdout",
)
NUM_REQUEUES = 100  # after a time limit; submitit's own default of 3 is too few for a long training
ADDITIONAL = "additional_parameters"  # of sbatch that submitit does not know
IN_JOB = "ISOPIX_JOB"  # the variable that a job sets for its own command
PREEMPTION_SECONDS = 10.0  # in which submitit's signal may follow SIGTERM in a preemption


def job_executor(folder: Path, parameters: Mapping[str, Any], *, cluster: Cluster = "slurm") -> Any:
    """Return submitit's executor of jobs that log to `folder`; its cluster "local" is this machine."""
    submitit = _submitit()
    if cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("srun")):
        raise RuntimeError("SLURM's sbatch and srun are not on the PATH; submit where they are")
    given = {name: value for name, value in parameters.items() if not name.startswith(f"{ADDITIONAL}.")}
    others = {name.partition(".")[2]: parameters[name] for name in parameters.keys() - given.keys()}
    requeues = given.pop("max_num_timeout", NUM_REQUEUES)
    # SLURM requeues the job after the failure of a node, and ends all of its tasks after that of one.
    given[ADDITIONAL] = {"requeue": True, **given.get(ADDITIONAL, {}), **others}
    given.setdefault("srun_args", ["--kill-on-bad-exit"])
    limit = {f"{cluster}_max_num_timeout": requeues}
    executor = submitit.AutoExecutor(folder=folder, cluster=cluster, **limit)
    named = {key if key in SHARED_PARAMETERS else f"slurm_{key}": each for key, each in given.items()}
    try:
        executor.update_parameters(**named)
    except (NameError, TypeError, ValueError, AssertionError) as error:
        raise ValueError(f"submitit does not accept these parameters: {error_line(error)}") from None
    return executor


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError:
        raise ValueError("SLURM jobs need submitit: pip install -e '.[slurm]'") from None


def job_options() -> list[str]:
    """Return `--slurm` with its parameters from the command of this job; nothing outside of a job."""
    if IN_JOB not in os.environ or "--slurm" not in sys.argv:
        return []
    option, *words = sys.argv[sys.argv.index("--slurm") :]
    return [option, *takewhile(lambda word: not word.startswith("-"), words)]


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
            try:
                requeue()
            except RuntimeError as error:
                if ranks.rank() == 0:
                    sys.stderr.write(f"isopix: {error}\n")
            if ranks.rank() == 0:
                raise

    def checkpoint(self) -> Any:
        """Return the call to requeue, when submitit asks for it."""
        return _submitit().helpers.DelayedSubmission(CommandJob(self.words, self.requeues + 1))


def join_ranks() -> None:
    """Set the environment variables by which the tasks of this job find each other, if it has several."""
    submitit = _submitit()
    if submitit.JobEnvironment().num_tasks > 1:
        # Every process sees all GPUs of its machine, and takes the one of its number.
        environment = submitit.helpers.TorchDistributedEnvironment()
        environment.export(set_cuda_visible_devices=False, overwrite=True)
        os.environ.setdefault("OMP_NUM_THREADS", os.environ.get("SLURM_CPUS_PER_TASK", "1"))


def requeue() -> None:
    """Hand the job, which has stopped and saved, to submitit's handler of its signal.

    It requeues the job and ends the process, but not in ranks other than 0, nor if the job is being canceled.
    """
    notice = signal.Signals[f"SIG{_submitit().JobEnvironment.USR_SIG}"]
    if stopped_by() is not notice:
        time.sleep(PREEMPTION_SECONDS)
        if not _has_grace_time():
            return
    signal.raise_signal(notice)


def _has_grace_time() -> bool:
    """Whether SLURM preempts this job and leaves it a grace time, in which an end of its own is final."""
    try:
        command = ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]]
        job = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (KeyError, OSError, subprocess.SubprocessError):
        return False
    fields = dict(re.findall(r"(\w+)=(\S+)", job))
    preempted, started = fields.get("PreemptTime", "None"), fields.get("StartTime", "")
    return fields.get("JobState") == "RUNNING" and preempted != "None" and preempted >= started
