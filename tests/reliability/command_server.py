"""A process that has imported isopix and forks the real command line: a command starts in milliseconds.

Reads lines of JSON from standard input: `words`, `folder` (the working directory), `output` (a file),
and `kill_in_save`, null or a pair: the command is killed so many seconds after so many files of unfinished
checkpoints were touched.
Answers with the process id of the command, and with its exit code at its end (-9: killed).
"""

import gc
import json
import os
import signal
import sys
import threading
import traceback
from functools import partial
from itertools import count
from pathlib import Path

import torch

import isopix
from isopix.__main__ import main
from isopix.core.signals import ignore_stop_signals


def warm_up(folder: Path) -> None:
    """Run what a command imports late, and what takes long for the first time."""
    run = isopix.pretrain("igpt.digits", "steps=1", "depth=1", "width=16", out=folder / "warm")
    isopix.probe(run, limit=60)
    __import__("isopix.cli.main")


def kill_when_saving(touched: int, delay: float) -> None:
    """Kill this process while it writes a checkpoint, wherever the files of a save are opened or renamed."""
    seen = count(1)
    kill = partial(os.kill, os.getpid(), signal.SIGKILL)
    at_the_moment = threading.Timer(delay, kill).start if delay else kill

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        is_touch = event in ("open", "os.rename") and ".tmp-step-" in str(arguments[0])
        if is_touch and next(seen) == touched:
            at_the_moment()

    sys.addaudithook(hook)


def command(words: list[str], folder: str, kill_in_save: tuple[int, float] | None, output: int) -> None:
    """Become the command, with a pipe for its output."""
    os.setsid()
    os.chdir(folder)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if kill_in_save is not None:
        kill_when_saving(*kill_in_save)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115
    sys.argv = ["isopix", *words]
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 70
    # As an interpreter ends: without handlers, and closing contexts that a signal left in their first line.
    ignore_stop_signals()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    os._exit(code)


def serve() -> None:
    """Fork one command after another."""
    for line in sys.stdin:
        job = json.loads(line)
        file, (reader, writer) = job.pop("output"), os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reader)
            command(**job, output=writer)
        os.close(writer)
        answer(process)
        copy(reader, file)
        answer(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


def copy(reader: int, file: str) -> None:
    """Append the output of a command to a file as it comes."""
    with open(file, "ab", buffering=0) as output:  # noqa: PTH123
        while text := os.read(reader, 4096):
            output.write(text)
    os.close(reader)


def answer(number: int) -> None:
    """Write a line that the parent process reads."""
    sys.__stdout__.write(f"{number}\n")
    sys.__stdout__.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    warm_up(Path(sys.argv[1]) / f"warm-up-{os.getpid()}")
    answer(0)
    serve()
