"""Inside a job of submitit: its tasks as ranks, and its requeue after a stop signal."""

import os
import signal
import time

from isopix.train.signals import stopped_by

PREEMPTION_SECONDS = 10.0  # in which submitit's signal follows SIGTERM, if the job is to be requeued


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
    if stopped_by() is notice:
        signal.raise_signal(notice)
    else:
        time.sleep(PREEMPTION_SECONDS)
