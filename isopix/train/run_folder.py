"""A run folder explains itself: every file of a run has one place, and one process at a time writes there."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from isopix.core.shell import command
from isopix.train.checkpoint import MANIFEST, tidy


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run; `create` or `open` makes sure that they are what they say."""

    path: Path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """A new run folder; raises ValueError if something is there. Of several processes one succeeds."""
        run = cls(path)
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; a run folder needs another --out")
        if path.is_dir() and any(path.iterdir()):
            raise ValueError(_taken(path))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (NotADirectoryError, FileExistsError):
            raise ValueError(f"run folder {path} cannot be made: part of its path is a file") from None
        try:
            run.checkpoints.mkdir()
        except FileExistsError:  # a second process was here since we looked
            raise ValueError(_taken(path)) from None
        run.samples.mkdir()
        run.probes.mkdir()
        return run

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """The run folder that is there; raises ValueError if it is none, or a checkpoint inside of one."""
        if not path.is_dir():
            raise ValueError(f"run folder {path} does not exist")
        if (path / MANIFEST).is_file():
            raise ValueError(f"{path} is a checkpoint, not a run folder; {_run_around(path)}")
        refuse_theirs(path, path)
        run = cls(path)
        if not run.recipe.is_file():
            raise ValueError(f"{path} holds no recipe.json; not a run folder")
        return run

    def clear_unless_saved(self) -> None:
        """Take back what a run without a checkpoint left, so that the same command works again."""
        if any(self.checkpoints.glob("step-*")):
            return
        for path in (self.checkpoints, self.samples, self.probes, self.path / "tensorboard"):
            shutil.rmtree(path, ignore_errors=True)
        for path in (
            self.recipe,
            self.environment,
            self.log,
            self.path / "lock",
            self.path / "bad-files.csv",
        ):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something of the user's is in there
            self.path.rmdir()

    @property
    def recipe(self) -> Path:
        """All settings of the run."""
        return self.path / "recipe.json"

    @property
    def environment(self) -> Path:
        """Versions, device and threads."""
        return self.path / "environment.json"

    @property
    def log(self) -> Path:
        """A line a step or evaluation."""
        return self.path / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def probes(self) -> Path:
        return self.path / "probes"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one process that writes here; raises ValueError that names the process that does.

        The kernel holds the lock and drops it when the process ends, however it ends. The file stays:
        removing it would let a third process lock a new file of that name while a second one holds the old.
        """
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise ValueError(f"run folder {self.path} is in use by {_owner(file.read())}") from None
            file.truncate(0)
            file.write(json.dumps({"process": os.getpid(), "host": socket.gethostname()}))
            file.flush()
            tidy(self.checkpoints)
            try:
                yield
            finally:
                file.truncate(0)


def refuse_theirs(folder: Path, name: object) -> None:
    """Raises ValueError for a folder of Hugging Face's; `name` is what the user calls it."""
    if (folder / "config.json").is_file() and not RunFolder(folder).recipe.is_file():
        line = command("convert", "huggingface", name, "OUT")
        raise ValueError(f"{name} is a Hugging Face model; {line} makes a run folder of it")


def _taken(path: Path) -> str:
    if RunFolder(path).recipe.is_file() and not any(path.glob("checkpoints/step-*/imported.json")):
        return (
            f"run folder {path} is not empty; choose another --out, or go on with: {command('resume', path)}"
        )
    return f"folder {path} is not empty; choose another --out"


def _run_around(checkpoint: Path) -> str:
    run = checkpoint.absolute().parent.parent
    if not RunFolder(run).recipe.is_file():
        return (
            "it is a saved model, and nothing is written into it: isopix verify, publish and convert "
            "to-huggingface read it, and isopix.load in Python, which also draws and gives features"
        )
    return f"give {checkpoint.parent.parent if len(checkpoint.parts) > 2 else run}"


def _owner(text: str) -> str:
    """Who holds the lock; it may be about to write its name."""
    try:
        owner = json.loads(text)
    except ValueError:
        return "another process"
    return f"process {owner['process']} on host {owner['host']}"
