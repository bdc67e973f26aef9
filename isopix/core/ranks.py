"""This process among those that torchrun has started, as their environment variables say.

Without torchrun there is one process, of rank 0.
"""

import os

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
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_abandoned() -> bool:
    """Whether torchrun, which started this process, has ended."""
    return are_started() and os.getppid() != PARENT


def num_restarts() -> int:
    """Return how often torchrun has started all processes again, after one of them has failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
