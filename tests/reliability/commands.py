"""Commands that are killed and signalled: start them in a warm server, and look at what they leave."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from isopix.storage import checkpoint
from isopix.storage.log import read_log


@pytest.fixture(scope="session")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Server"]:
    """One warm server for all tests of a worker, as it takes seconds to start; use `working_in`."""
    with Server(tmp_path_factory.mktemp("commands")) as found:
        yield found


class Server:
    """`command_server.py`, ready; one command at a time."""

    def __init__(self, folder: Path):
        self.cache = folder / "cache"
        environment = {**os.environ, "ISOPIX_CACHE": str(self.cache), "OMP_NUM_THREADS": "1"}
        script = Path(__file__).with_name("command_server.py")
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        self.read()

    def working_in(self, folder: Path) -> "Server":
        """Return the same server, whose commands run in another folder."""
        other = copy(self)
        other.folder = folder
        return other

    def read(self) -> int:
        return int(self.process.stdout.readline())

    def start(self, *words: str, kill_in_save: tuple[int, float] | None = None) -> int:
        """Start a command; returns its process id.

        With `kill_in_save` it dies so many seconds after so many files of unfinished checkpoints.
        """
        job = {"words": words, "folder": str(self.folder), "output": str(self.output)}
        job["kill_in_save"] = kill_in_save
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self.read()

    def run(self, *words: str) -> int:
        """Run a command to its end; returns its exit code."""
        self.start(*words)
        return self.read()

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def newest_step(run: Path) -> int:
    """Return the step of the newest checkpoint, all of which must be intact; -1 without any."""
    found, damaged = checkpoint.load_latest(run / "checkpoints", checkpoint.load_checkpoint)
    assert damaged == []
    return -1 if found is None else found.records["state"]["step"]


def logged_step(run: Path) -> int:
    """Return the last training step in the log; 0 without any."""
    if not (run / "log.jsonl").is_file():
        return 0
    return max((each["step"] for each in read_log(run / "log.jsonl") if each["kind"] == "train"), default=0)


def digests(run: Path) -> dict[str, str]:
    """Return the hashes of the tensors of all checkpoints of all runs in a folder."""
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*.safetensors"))
    }


def strays(folder: Path) -> list[str]:
    """Return the names of temporary files."""
    return [path.name for path in folder.rglob(".tmp-*")]
