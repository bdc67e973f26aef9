"""Commands that are killed and signalled: start them in a warm server, and look at what they leave."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path

from isopix.storage import checkpoint
from isopix.storage.log import read_log


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

    def start(
        self, *words: str, limit: int | None = None, kill_in_save: tuple[int, float] | None = None
    ) -> int:
        """Start a command, whose files may have `limit` bytes; returns its process id.

        With `kill_in_save` it dies so many seconds after so many files of unfinished checkpoints.
        """
        job = {"words": words, "folder": str(self.folder), "output": str(self.output), "limit": limit}
        job["kill_in_save"] = kill_in_save
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return self.read()

    def send(self, pid: int, number: int, *, to_group: bool = False) -> None:
        """Send a signal to a command, or to all of its processes; one that has ended is left alone."""
        with suppress(ProcessLookupError):
            os.killpg(pid, number) if to_group else os.kill(pid, number)

    def run(self, *words: str, limit: int | None = None) -> int:
        """Run a command to its end; returns its exit code."""
        self.start(*words, limit=limit)
        return self.read()

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """A server whose commands run in a folder."""
    one = Server(folder)
    try:
        yield one
    finally:
        one.close()


def newest_step(run: Path) -> int:
    """Return the step of the newest checkpoint, all of which must be intact; -1 without any."""
    found = checkpoint.load_latest(run / "checkpoints")
    assert found.damaged == []
    return -1 if found.checkpoint is None else found.checkpoint.records["state"]["step"]


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
    return [path.name for path in folder.rglob(".tmp-*")] + [path.name for path in folder.rglob(".writing-*")]


def wait_for_a_save(folder: Path, *, limit: float) -> None:
    """Wait until a checkpoint is being written, at most that many seconds."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):  # a folder was renamed meanwhile
            if any(folder.glob("**/checkpoints/.tmp-step-*")):
                return
        time.sleep(0.0005)
