"""A run folder explains itself: every file of a run has one place, and one process at a time writes there."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from isopix.core.command_line import command
from isopix.storage.atomic import read_json
from isopix.storage.checkpoint import MANIFEST, tidy
from isopix.storage.lock import LOCK, sole_writer


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run; `create` or `open` makes sure that they are what they say."""

    path: Path

    @classmethod
    def create(cls, path: Path, beside: Collection[str] = ()) -> "RunFolder":
        """A new run folder; raises ValueError if something is there but files of the names `beside`. Of
        several processes one succeeds.
        """
        run = cls(path)
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file; a run folder needs another --out")
        if path.is_dir() and any(each.name not in beside for each in path.iterdir()):
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
        run.refuse_undecided()
        if not run.recipe.is_file():
            raise ValueError(f"{path} holds no recipe.json; not a run folder")
        return run

    def refuse_undecided(self) -> None:
        """Raises ValueError, with the command that goes on, for a run whose step is still to be chosen."""
        chooser = RunFolder(self.selection)
        if chooser.environment.is_file() and not self.saved:
            again = command(*read_json(chooser.environment)["command"][1:])
            raise ValueError(
                f"{self.path} has no run of its own yet, for its step was to be chosen first; "
                f"go on with: {again}"
            )

    def clear_unless_saved(self) -> None:
        """Take back what a run without a checkpoint left, so that the same command works again."""
        if self.saved:
            return
        for path in (
            self.checkpoints,
            self.best,
            self.samples,
            self.probes,
            self.history,
            self.path / "tensorboard",
        ):
            shutil.rmtree(path, ignore_errors=True)
        for path in (
            self.recipe,
            self.environment,
            self.log,
            self.path / LOCK,
            self.path / "bad-files.csv",
        ):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # something of the user's is in there
            self.path.rmdir()

    @property
    def saved(self) -> bool:
        """Whether a step was ever saved, so that there is something to go on from."""
        return any(self.checkpoints.glob("step-*"))

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
    def best(self) -> Path:
        """The checkpoint of a fine-tuned run with the best validation accuracy."""
        return self.path / "best"

    @property
    def selection(self) -> Path:
        """The run folder of the run that selected the number of steps of this one, before a refit."""
        return self.path / "selection"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def probes(self) -> Path:
        return self.path / "probes"

    @property
    def history(self) -> Path:
        """Details of evaluations during training, a file per step."""
        return self.path / "history"

    @property
    def evaluations(self) -> Path:
        """Verdicts on a fine-tuned run's classifier."""
        return self.path / "evaluations"

    @property
    def analysis(self) -> Path:
        """What `isopix analyse` found: numbers and their figures."""
        return self.path / "analysis"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one process that writes here; raises ValueError that names the process that does."""
        with sole_writer(self.path, "run folder"):
            tidy(self.checkpoints)
            yield


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
