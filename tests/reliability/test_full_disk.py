"""Commands whose files may not grow: what was there stays readable, and the message names a path."""

import hashlib
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.storage import checkpoint
from isopix.storage.arrays import read_tensors
from tests.reliability.commands import Server, command_server

__all__ = ["command_server"]
pytestmark = pytest.mark.integration

SMALL = ["depth=1", "width=16", "steps=6", "batch_size=4", "evaluate_images=8", "num_test_images=8"]
SMALL += ["data.limit=80", "log_every=1", "checkpoint_every=2"]
COMMANDS = {
    "pretrain": ["pretrain", "igpt.digits", *SMALL, "--out", "new"],
    "resume": ["resume", "stopped"],
    "probe": ["probe", "run", "--limit", "60"],
    "sample": ["sample", "run", "-n", "4"],
    "complete": ["complete", "run", "-n", "2"],
    "analyze": ["analyze", "run"],
    "report": ["report", "run", "--out", "report.html"],
    "finetune": ["finetune", "run", "steps=4", "evaluate_every=2", "--out", "new"],
    "evaluate": ["evaluate", "tuned"],
    "low-data": ["low-data", "run", "--labels", "1", "--subsets", "2"],
    "to-huggingface": ["convert", "to-huggingface", "run", "exported"],
    "palette": ["palette", "fit", "--data", "digits", "--out", "colors.npz", "--colors", "8"],
}
REPEATED = {"probe", "sample", "complete", "analyze", "evaluate", "low-data", "report", "palette"}
LARGEST = {"report": 400_000, "to-huggingface": 60_000, "analyze": 60_000, "sample": 3_000}  # bytes


def readable(path: Path) -> bool:
    """Return whether a file is whole."""
    match path.suffix:
        case ".json":
            json.loads(path.read_text())
        case ".png":
            Image.open(path).load()
        case ".html":
            return path.read_text().rstrip().endswith("</html>")
        case ".safetensors":
            read_tensors(path)
        case ".npy" | ".npz":
            np.load(path)
        case ".csv":
            return path.read_text().endswith("\n")
    return True


@pytest.fixture(scope="module")
def one(command_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server in a folder with a run, the run fine-tuned, and a run to resume."""
    found = command_server.working_in(tmp_path_factory.mktemp("full"))
    assert found.run("pretrain", "igpt.digits", *SMALL, "--out", "run") == 0
    assert found.run("finetune", "run", "steps=4", "evaluate_every=2", "--out", "tuned") == 0
    shutil.copytree(found.folder / "run", found.folder / "stopped")
    shutil.rmtree(found.folder / "stopped/checkpoints/step-00000006")
    return found


def hashes(folder: Path) -> dict[Path, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check(one: Server, name: str, limit: int) -> bool:
    """Run a command whose files may have `limit` bytes; return whether it failed."""
    one.output.write_text("")
    before, case = hashes(one.folder), f"{name} with at most {limit} bytes"
    code = one.run(*COMMANDS[name], limit=limit)
    output = one.output.read_text()
    assert "Traceback" not in output, f"{case}: {output}"
    if code:
        [line] = [line for line in output.splitlines() if line.startswith("isopix: ")]
        assert "cannot be written" in line, f"{case}: {line}"
        assert "Errno" not in line, f"{case}: {line}"
    after = hashes(one.folder)
    for path, digest in before.items():
        assert after.get(path) == digest or readable(path), f"{case} lost or tore {path}"
    new = after.keys() - before
    assert [path for path in new if path.name.startswith(".tmp-")] == [], case
    assert all(map(readable, new)), case
    for folder in one.folder.glob("*/checkpoints/step-*"):
        checkpoint.load_checkpoint(folder)
    for folder in (one.folder / "new", one.folder / "exported"):
        shutil.rmtree(folder, ignore_errors=True)
    return code != 0


FEW, ALL = ["pretrain", "resume", "sample"], [*COMMANDS] * 4


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("names", "seed"), [(FEW, 1), pytest.param(ALL, 3, marks=pytest.mark.slow)])
def test_full_disks_tear_nothing(one: Server, names: list[str], seed: int) -> None:
    for name in {*names} & REPEATED:
        assert one.run(*COMMANDS[name]) == 0
    chance = random.Random(seed)
    failed = [check(one, name, int(LARGEST.get(name, 9_000) * chance.random() ** 2)) for name in names]
    assert sum(failed) >= len(names) // 2
