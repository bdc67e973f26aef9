"""A tiny training process that saves every step, and a server that forks it: a restart costs milliseconds.

Reads lines `train<tab>FOLDER<tab>STEPS` from standard input and forks. Answers with the child's process id,
`ready` when it is about to train, and its exit status in the end (-9: killed; 75: asked to stop, and saved).
"""

import os
import sys
from pathlib import Path

import torch

from isopix.core.signals import stop_requested
from isopix.storage import checkpoint
from isopix.storage.log import RunLog
from isopix.storage.run_folder import RunFolder

ASKED_TO_STOP = 75


def advance(tensors, step):
    """A deterministic update of weights and a moment; any step left out or done twice shows in the bits."""
    weight, moment = tensors["model"]["weight"], tensors["optimizer"]["moment"]
    moment = 0.9 * moment + torch.sin(weight * 3 + step)
    return {"model": {"weight": weight - 0.01 * moment}, "optimizer": {"moment": moment}}


def begin():
    return {"model": {"weight": torch.linspace(-1, 1, 4096)}, "optimizer": {"moment": torch.zeros(4096)}}


def answer(word):
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def train(path, steps):
    run = RunFolder(path)
    with stop_requested() as request, run.lock():
        found = checkpoint.load_latest(run.checkpoints).checkpoint
        tensors, step = (found.tensors, found.records["state"]["step"]) if found else (begin(), 0)
        log = RunLog(run.log)
        log.truncate_after(step)
        answer("ready")
        while step < steps and request.signal is None:
            step += 1
            tensors = advance(tensors, step)
            log.write({"kind": "train", "step": step})
            log.sync()
            checkpoint.save_checkpoint(
                checkpoint.step_folder(run.checkpoints, step), tensors, {"state": {"step": step}}
            )
            checkpoint.prune(run.checkpoints)
        log.close()
    return ASKED_TO_STOP if request.signal else 0


def serve():
    torch.set_num_threads(1)
    advance(begin(), 1)  # warm, before the first fork
    for line in sys.stdin:
        _, path, steps = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            answer(os.getpid())
            os._exit(train(Path(path), int(steps)))
        answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    serve()
