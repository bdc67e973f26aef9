"""Errors of one of several processes: the first one is said, with its rank, and ends all."""

import os
import sys
import time
from pathlib import Path

from isopix.core import ranks

SAME_ERROR = 5.0  # seconds that other ranks leave to rank 0, whose error is usually the same
LOST_CONTACT = 5.0  # seconds that a rank leaves to the one that it has lost contact with
PARALLEL_COMMANDS = ("pretrain", "finetune", "resume", "probe")
STOP_FILE = "ISOPIX_STOP_FILE"  # the environment variable with the path of a message
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


def say_error(message: str) -> None:
    """Print one line to standard error."""
    sys.stderr.write(f"{message}\n")


def say_stop(message: str) -> None:
    """Print the message of a stop signal, or leave it to the process that has started this one by
    `--devices`. That prints it unless another rank has failed: then, too, this one gets SIGTERM.
    """
    if file := os.environ.get(STOP_FILE):
        Path(file).write_text(message)
    else:
        say_error(message)
