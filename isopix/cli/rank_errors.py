"""Errors of one of several processes: the first one is said, with its rank, and ends all."""

import sys
import time

from isopix.core import ranks

SAME_ERROR = 5.0  # seconds that other ranks leave to rank 0, whose error is usually the same
LOST_CONTACT = 5.0  # seconds that a rank leaves to the one that it has lost contact with
PARALLEL_COMMANDS = ("pretrain", "finetune", "resume", "probe")
CONNECTION_ERRORS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")


def check_command(name: str) -> None:
    """Raise ValueError for a command that torchrun has started in several processes, and that uses one."""
    if ranks.num_ranks() > 1 and name not in PARALLEL_COMMANDS:
        allowed = ", ".join(PARALLEL_COMMANDS)
        raise ValueError(f"{name} runs in one process, without torchrun; commands for several: {allowed}")


def of_rank(message: str) -> str:
    """Return an error message with the rank of this process, if there are several.

    The first process that ends with an error ends the others: those whose error is likely to be a consequence
    wait for that.
    """
    if ranks.num_ranks() == 1:
        return message
    lost = any(each in message for each in CONNECTION_ERRORS)
    try:
        time.sleep(LOST_CONTACT if lost else SAME_ERROR if ranks.rank() else 0)
    except KeyboardInterrupt:
        sys.exit(1)
    text = f"lost contact with another rank: {message}" if lost else message
    return f"rank {ranks.rank()}: {text}"
