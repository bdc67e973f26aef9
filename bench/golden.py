"""Golden transcripts: what every command prints, saves and draws on digits, to compare versions.

python bench/golden.py OUT runs golden.txt with the isopix on PYTHONPATH, on one CPU thread, in OUT/work;
those with an @ run twice, with --json. python bench/golden.py --compare OLD NEW prints what differs.
"""

import csv
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import golden_compare
import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

import isopix

CHECKOUT = Path(isopix.__file__).parents[1]
COMMANDS = Path(__file__).with_suffix(".txt")
KILLED = "pretrain igpt.digits steps=30 evaluate_every=10 checkpoint_every=10 --seed 1 --probe-every 15"
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "140",
    "PYTHONPATH": str(CHECKOUT),
}
REPLACED = [
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.+Z]+)?"), "DATE"),
    (re.compile(r"\b\d+\.\d+\.\d+[\w.+]*"), "VERSION"),
    (
        re.compile(r"(eta )[\d:]+|[\d.,]+ ?(img/s|images/s|/s|ms|s|min|seconds|minutes|GiB|GB|MiB)\b"),
        r"\1N\2",
    ),
    (re.compile(r"[─━═╭╮╰╯│ \t]+"), " "),
]


def run(out: Path) -> None:
    work = out.resolve() / "work"
    work.mkdir(parents=True)
    np.save(work / "kmeans_centers.npy", np.arange(18).reshape(6, 3) / 8.5 - 1)
    golden: dict[str, Any] = {}
    for command in COMMANDS.read_text().splitlines():
        before = _state(work)
        if command == "resume killed":
            _kill_training(work)
        words = shlex.split(command.replace("BUNDLE", f"{CHECKOUT}/tests/golden/openai-bundle/model.ckpt-7"))
        golden[command] = _call(work, *filter(None, (word.replace("@", "") for word in words)))
        if "@" in command:  # which stands for an ending of its own of what the second run creates
            ends = (word.replace("@", "-json") for word in words if word != "@")
            with suppress(ValueError):
                golden[command]["json"] = json.loads(_call(work, *ends, "--json")["stdout"])
        golden[command]["files"] = _files(work, before)
        (out / "golden.json").write_text(json.dumps(golden, indent=1))
        print(golden[command]["code"], command, flush=True)


def _start(work: Path, *words: str) -> subprocess.Popen[str]:
    command, environment = [sys.executable, "-m", "isopix", *words], os.environ | ENVIRONMENT
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        command, cwd=work, env=environment | {"ISOPIX_CACHE": str(work / "cache")}, **pipes
    )


def _call(work: Path, *words: str) -> dict[str, Any]:
    process = _start(work, *words)
    out, err = process.communicate()
    return {"code": process.returncode, "stdout": _text(out, work), "stderr": _text(err, work)}


def _kill_training(work: Path) -> None:
    process = _start(work, *KILLED.split(), "--out", "killed")
    while process.poll() is None and not (work / "killed/checkpoints/step-00000010").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()


def _text(text: str, work: Path) -> str:
    text = text.replace(f"{work}/", "").replace(str(work), ".").replace(str(CHECKOUT), "CHECKOUT")
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text


def _state(work: Path) -> dict[Path, int]:
    files = (
        path for path in work.rglob("*") if path.is_file() and path.relative_to(work).parts[0] != "cache"
    )
    return {path: path.stat().st_mtime_ns for path in files}


def _files(work: Path, before: dict[Path, int]) -> dict[str, Any]:
    """Return what the files say that are new or changed, by their paths."""
    new = sorted(path for path, changed in _state(work).items() if before.get(path) != changed)
    return {
        str(path.relative_to(work)): READERS[path.suffix](path, work)
        for path in new
        if path.suffix in READERS
    }


def _digest(*arrays: np.ndarray) -> str:
    """Return a hash of the arrays that depends neither on their names nor on their order."""
    each = sorted(hashlib.sha256(np.ascontiguousarray(array)).hexdigest() for array in arrays)
    return f"sha256:{hashlib.sha256(''.join(each).encode()).hexdigest()[:16]}"


def _bytes(path: Path) -> list[np.ndarray]:
    return [each.reshape(-1).view(torch.uint8).numpy() for each in load_file(path).values()]


def _page(path: Path, work: Path) -> str:
    page = re.sub(r"(?s)<(style|script|svg).*?</\1>|data:[^\"]*", "", path.read_text())
    return _text(re.sub(r"\s*\n\s*", "\n", re.sub("<[^>]+>", "\n", page)), work)


READERS: dict[str, Callable[[Path, Path], Any]] = {
    ".json": lambda path, work: json.loads(path.read_text()),
    ".jsonl": lambda path, work: [json.loads(line) for line in path.read_text().splitlines()],
    ".safetensors": lambda path, work: {f"weights of {path.name}": _digest(*_bytes(path))},
    ".npy": lambda path, work: {"array": _digest(np.load(path))},
    ".npz": lambda path, work: {k: _digest(v) for k, v in np.load(path).items() if v.dtype.kind != "U"},
    ".png": lambda path, work: {"pixels": _digest(np.asarray(Image.open(path).convert("RGBA")))},
    ".csv": lambda path, work: list(csv.DictReader(path.read_text().splitlines())),
    ".html": _page,
    ".md": lambda path, work: _text(path.read_text(), work),
}


if __name__ == "__main__":
    golden_compare.compare(*map(Path, sys.argv[2:])) if sys.argv[1] == "--compare" else run(Path(sys.argv[1]))
