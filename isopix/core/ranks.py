"""This process among those that torchrun or SLURM has started, by their variables; alone, of rank 0."""

import atexit
import os
import sys

PARENT = os.getppid()  # that started this process


def rank() -> int:
    """Return the number of this process; the one of rank 0 writes and prints."""
    return int(os.environ.get("RANK", "0"))


def num_ranks() -> int:
    """Return the number of processes, over all machines."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_rank() -> int:
    """Return the number of this process on its machine, which is that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def num_local_ranks() -> int:
    """Return the number of processes on this machine, which share its cores."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def are_started() -> bool:
    """Whether this process is to join others, by the variables that torch.distributed reads."""
    return {"RANK", "MASTER_ADDR"} <= os.environ.keys()


def is_abandoned() -> bool:
    """Whether the process that started this one, among others, has ended."""
    return are_started() and os.getppid() != PARENT


def num_restarts() -> int:
    """Return how often torchrun has restarted all processes, and SLURM requeued the job."""
    names = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
    return sum(int(os.environ.get(name, "0")) for name in names)


def end_process(code: int = 0) -> None:
    """End this process at once, if torchrun has started it: threads of PyTorch's process group that still run
    when the interpreter ends would abort it.
    """
    if are_started():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
