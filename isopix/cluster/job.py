"""Inside a job of submitit: its tasks as ranks, and its requeue after a stop signal."""

import os
import re
import signal
import subprocess
import time

from isopix.core.signals import stopped_by

PREEMPTION_SECONDS = 10.0  # in which submitit's signal may follow SIGTERM in a preemption


def join_ranks() -> None:
    """Set the environment variables by which the tasks of this job find each other, if it has several."""
    import submitit  # noqa: PLC0415 - an extra

    if submitit.JobEnvironment().num_tasks > 1:
        # Every process sees all GPUs of its machine, and takes the one of its number.
        environment = submitit.helpers.TorchDistributedEnvironment()
        environment.export(set_cuda_visible_devices=False, overwrite=True)
        os.environ.setdefault("OMP_NUM_THREADS", os.environ.get("SLURM_CPUS_PER_TASK", "1"))


def requeue() -> None:
    """Hand the job, which has stopped and saved, to submitit's handler of its signal.

    That requeues the job and ends the process; it returns in ranks other than 0, and where SIGTERM was not
    part of a preemption but cancels the job. Raises RuntimeError if the job was requeued too often.
    """
    import submitit  # noqa: PLC0415 - an extra

    notice = signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"]
    if stopped_by() is not notice:
        time.sleep(PREEMPTION_SECONDS)
        if not _has_grace_time():
            return
    signal.raise_signal(notice)


def _has_grace_time() -> bool:
    """Whether SLURM preempts this job and has left it a grace time: a job that ends by itself within that is
    not requeued. A canceled job, and one that SLURM requeues, is not running any more.
    """
    try:
        job = subprocess.run(
            ["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    except (KeyError, OSError, subprocess.SubprocessError):
        return False
    fields = dict(re.findall(r"(\w+)=(\S+)", job))
    preempted, started = fields.get("PreemptTime", "None"), fields.get("StartTime", "")
    return fields.get("JobState") == "RUNNING" and preempted != "None" and preempted >= started
