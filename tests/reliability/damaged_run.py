"""Damage the newest checkpoint of a run and resume the run, in a process of its own that may crash.

Reads lines `FOLDER<tab>SEED` from standard input and forks for each. The child damages the newest checkpoint
of the run folder, resumes it, and answers `what was done<tab>file<tab>notes of the log`; the server adds
the exit status: 0, or a signal's number with a minus.
"""

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from isopix.data.dataset import DataConfig, load_dataset
from isopix.runs.observer import RunObserver
from isopix.runs.resume import resume_run
from isopix.storage.log import read_log
from isopix.storage.safetensors_io import read_tensors, write_tensors
from isopix.train.optim import Adam
from tests.reliability.mutations import seal
from tests.reliability.test_damage import MUTATIONS

Tensors = dict[str, Tensor]
FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "recipe.json", "environment.json")


def floating(tensors: Tensors, chance: random.Random) -> str:
    """The name of a tensor of numbers that are not whole; not of a counter."""
    return chance.choice([name for name, each in tensors.items() if each.is_floating_point() and each.ndim])


def reshape(tensors: Tensors, chance: random.Random) -> str:
    name = floating(tensors, chance)
    tensor = tensors[name]
    shapes = [tensor[:1], tensor[:0], tensor[..., :-1], torch.cat([tensor, tensor]), tensor[None]]
    shapes += [tensor.flatten()] if tensor.ndim > 1 else []
    allowed = [each for each in shapes if each.shape != tensor.shape]
    tensors[name] = chance.choice(allowed).contiguous()
    return f"{name} {tuple(tensor.shape)} -> {tuple(tensors[name].shape)}"


def scalar(tensors: Tensors, chance: random.Random) -> str:
    name = floating(tensors, chance)
    tensors[name] = torch.tensor(0.5)
    return f"{name} a scalar"


def other_type(tensors: Tensors, chance: random.Random) -> str:
    name = floating(tensors, chance)
    tensors[name] = tensors[name].to(chance.choice([torch.int64, torch.uint8, torch.bool]))
    return f"{name} of type {tensors[name].dtype}"


def not_finite(tensors: Tensors, chance: random.Random) -> str:
    name = floating(tensors, chance)
    value = chance.choice([torch.nan, torch.inf, -torch.inf])
    tensors[name].view(-1)[chance.randrange(tensors[name].numel())] = value
    return f"{name} has {value}"


def rename(tensors: Tensors, chance: random.Random) -> str:
    name = chance.choice(list(tensors))
    tensors[chance.choice([f"{name}x", "x", name.replace("a", "b") + "_"])] = tensors.pop(name)
    return f"{name} renamed"


def remove(tensors: Tensors, chance: random.Random) -> str:
    name = chance.choice(list(tensors))
    del tensors[name]
    return f"{name} removed"


def add(tensors: Tensors, chance: random.Random) -> str:
    tensors[chance.choice(["y", "head.y", "backbone.blocks.7.y"])] = torch.zeros(chance.randrange(5))
    return "a tensor added"


def exchange(tensors: Tensors, chance: random.Random) -> str:
    first = floating(tensors, chance)
    other = chance.choice([name for name, each in tensors.items() if each.shape != tensors[first].shape])
    tensors[first], tensors[other] = tensors[other], tensors[first]
    return f"{first} exchanged with {other}"


CONTENT: list[Callable[[Tensors, random.Random], str]] = [
    reshape, scalar, other_type, not_finite, rename, remove, add, exchange
]  # fmt: skip


def of_other_run(folder: Path, chance: random.Random) -> tuple[str, str]:
    """Replace the checkpoint by that of another run of the same recipe but for the seed."""
    shutil.rmtree(folder)
    shutil.copytree(folder.parents[2] / "other" / "checkpoints" / folder.name, folder)
    return "of another run", "state.json"


def older_file(folder: Path, chance: random.Random) -> tuple[str, str]:
    """Replace the state by that of the previous checkpoint, with the right hash."""
    [before] = [each for each in folder.parent.glob("step-*") if each != folder]
    shutil.copy(before / "state.json", folder)
    seal(folder)
    return "state.json of the previous checkpoint", "state.json"


def renamed_folder(folder: Path, chance: random.Random) -> tuple[str, str]:
    folder.rename(folder.with_name(f"step-{chance.randrange(9, 99):08d}"))
    return "folder renamed", "state.json"


def swapped_groups(folder: Path, chance: random.Random) -> tuple[str, str]:
    """Exchange weights and optimizer state, with the right hashes."""
    model, optimizer = folder / "model.safetensors", folder / "optimizer.safetensors"
    data = model.read_bytes()
    model.write_bytes(optimizer.read_bytes())
    optimizer.write_bytes(data)
    seal(folder)
    return "files swapped", "model.safetensors"


WHOLE = [of_other_run, older_file, renamed_folder, swapped_groups]


def changed_tensors(folder: Path, chance: random.Random) -> tuple[str, str]:
    file = folder / chance.choice(FILES[:2])
    tensors = read_tensors(file)
    done = chance.choice(CONTENT)(tensors, chance)
    write_tensors(file, tensors)
    seal(folder)
    return done, file.name


def changed_bytes(folder: Path, chance: random.Random) -> tuple[str, str]:
    kind = chance.choice([each for each in MUTATIONS if "swap" not in each.__name__])
    file = folder / chance.choice(FILES)
    kind(file, chance)
    return f"{kind.__name__} of {file.name}", file.name


def damage(folder: Path, seed: int) -> tuple[str, str]:
    """Damage a checkpoint; return what was done, and the file that should be named."""
    chance = random.Random(seed)
    kinds = [changed_bytes, changed_tensors, changed_tensors, chance.choice(WHOLE)]
    return kinds[seed % len(kinds)](folder, chance)


def run(path: Path, seed: int) -> str:
    newest = max((path / "checkpoints").glob("step-*"))
    done, file = damage(newest, seed)
    resume_run(path, device=torch.device("cpu"), observer=RunObserver())
    notes = [each["text"] for each in read_log(path / "log.jsonl") if each["kind"] == "note"]
    return "\t".join([done, file, *notes])


def serve() -> None:
    torch.set_num_threads(1)
    Adam().build([torch.nn.Parameter(torch.zeros(1))])  # imports much, once for all children
    load_dataset(DataConfig(limit=20, rows=4, cols=4))
    for line in sys.stdin:
        path, seed = line.rstrip("\n").split("\t")
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                text = run(Path(path), int(seed))
            except Exception as error:
                text = f"raised {type(error).__name__}\t{' '.join(str(error).split())}"
            os.write(1, f"{text}\n".encode())
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
