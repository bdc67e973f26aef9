"""A process that has imported isopix and forks the real command line: a command starts in milliseconds.

Reads lines of JSON from standard input: `words`, `folder` (the working directory) and `output` (a file).
Answers with the process id of the command, and with its exit code at its end (-9: killed).
"""

import json
import os
import sys
import traceback
from pathlib import Path

import torch

import isopix
from isopix.__main__ import main


def warm_up(folder: Path) -> None:
    """Run what a command imports late, and what takes long for the first time."""
    run = isopix.pretrain("igpt.digits", out=folder / "warm", overrides=["steps=1", "depth=1", "width=16"])
    isopix.probe(run, limit=60)
    for name in ("analyze", "finetune", "search_lr", "study", "resume", "pretrain"):
        __import__(f"isopix.cli.{name}")


def command(words: list[str], folder: str, output: str) -> None:
    """Become the command."""
    os.setsid()
    os.chdir(folder)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
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
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    """Fork one command after another."""
    for line in sys.stdin:
        job = json.loads(line)
        process = os.fork()
        if process == 0:
            command(**job)
        answer(process)
        answer(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))


def answer(number: int) -> None:
    """Write a line that the parent process reads."""
    sys.__stdout__.write(f"{number}\n")
    sys.__stdout__.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    warm_up(Path(sys.argv[1]))
    answer(0)
    serve()
