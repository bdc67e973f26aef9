"""This process among those that torchrun or SLURM has started, by their variables; alone, of rank 0."""

import atexit
import os
import signal
import sys
import threading
import time

PARENT = os.getppid()  # that started this process
LAUNCHED = "ISOPIX_LAUNCHED"  # the variable of the ranks that `--devices` starts


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


def end_with_parent() -> None:
    """Send this process SIGTERM once the process that has started it, among others, is gone."""

    def watch() -> None:
        while os.getppid() == PARENT:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    if are_started():
        threading.Thread(target=watch, daemon=True).start()


def num_restarts() -> int:
    """Return how often torchrun has restarted all processes, and SLURM requeued the job."""
    names = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
    return sum(int(os.environ.get(name, "0")) for name in names)


def end_process(code: int = 0) -> None:
    """End this process at once, or by the signal -`code`, if it is a rank: threads of PyTorch's process group
    that still run when the interpreter ends would abort it.
    """
    if are_started():
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            signal.raise_signal(-code)
        os._exit(code)
