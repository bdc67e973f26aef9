"""Run folders: the path of every file of a run, and a lock, so that one process at a time writes there."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from isopix.core.command_line import command_line
from isopix.core.suggestions import did_you_mean, similar_paths
from isopix.storage.atomic import fsync_folder, is_temporary, read_json
from isopix.storage.checkpoint import MANIFEST, recover
from isopix.storage.lock import LOCK_FILE, exclusive_lock, is_lock
from isopix.storage.record_types import read_environment

# What a run has before its first checkpoint.
START_FOLDERS = ("checkpoints", "best", "samples", "probes", "tensorboard")
START_FILES = (
    "recipe.json",
    "environment.json",
    "log.jsonl",
    "training-images.npy",
    "labeled-images.npy",
    "data-sample.npz",
    "step-losses.f64",
    "bad-files.csv",
    LOCK_FILE,
)
KNOWN_BY = ("checkpoints", LOCK_FILE)  # of those: a start creates the lock first, and deletes these last


@dataclass
class RunFolder:
    """The paths of one run; use `start_run`, `create` or `open`, which check the folder."""

    path: Path
    target: Path | None = None  # where `publish` moves a run that has just been started
    saved_at: Path | None = None  # of a view: the run that another process saves

    @classmethod
    def create(cls, path: Path, allowed: Collection[str] = ()) -> "RunFolder":
        """Create a run folder; of several processes one succeeds.

        Raises ValueError if the folder has files other than `allowed`.
        """
        require_new(path, allowed)
        run = cls(path)
        path.mkdir(parents=True, exist_ok=True)
        run.create_folders()
        return run

    def create_folders(self) -> None:
        """Create the folders of a new run. Raises ValueError if another process has done so."""
        try:
            self.checkpoints.mkdir()
        except FileExistsError:  # another process has created it since
            raise ValueError(_taken(self.path)) from None
        self.samples.mkdir()
        self.probes.mkdir()

    def view(self, path: Path) -> "RunFolder":
        """Return a new folder with copies of the run's small files, for a process that does not save it."""
        run = RunFolder(path, saved_at=self.path)
        path.mkdir()
        run.create_folders()
        for name in START_FILES:
            if name != LOCK_FILE and (self.path / name).is_file():
                shutil.copyfile(self.path / name, path / name)
        return run

    @property
    def saved(self) -> "RunFolder":
        """The run where it is saved: this one, unless it is a view."""
        return self if self.saved_at is None else RunFolder(self.saved_at)

    def publish(self) -> None:
        """Give a run that has been started its own name, now that it can be resumed.

        Raises ValueError if another run has that name by now.
        """
        if self.target is None:
            return
        try:
            self.path.rename(self.target)
        except OSError:
            if not self.target.exists():
                raise
            raise ValueError(_taken(self.target)) from None
        fsync_folder(self.target.parent)
        self.path, self.target = self.target, None

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open a run folder; raises ValueError for other folders and for checkpoints."""
        if path.is_file():
            raise ValueError(f"{path} is a file, not a run folder")
        if not path.is_dir():
            hint = did_you_mean(str(path), similar_paths(path, folders=True)).rstrip()
            raise ValueError(f"run folder {path} does not exist{'; ' * bool(hint)}{hint}")
        if (path / MANIFEST).is_file():
            raise ValueError(f"{path} is a checkpoint, not a run folder; {_run_around(path)}")
        reject_huggingface_model(path, path)
        run = cls(path)
        run.require_selected_step()
        if not run.recipe.is_file():
            raise ValueError(f"{path} has no recipe.json; it is not a run folder")
        run.require_second_edition()
        return run

    def require_second_edition(self) -> None:
        """Raise ValueError for a run of isopix 0.1, whose settings have other names."""
        version = ""
        with suppress(OSError, ValueError):  # a missing or damaged file is a finding of those who need it
            version = str(read_json(self.environment).get("isopix", ""))
        if version.startswith("0.1."):
            raise ValueError(
                f"{self.path} was written by isopix {version}; this version cannot read it: train again"
            )

    def require_selected_step(self) -> None:
        """Raise ValueError, with the command that resumes the run, before the number of steps is selected."""
        selection = RunFolder(self.selection)
        if selection.environment.is_file() and not self.has_checkpoints:
            again = command_line(*read_environment(selection.environment, "command")["command"][1:])
            raise ValueError(
                f"{self.path} has no checkpoints yet: its number of steps is still to be selected; "
                f"resume with: {again}"
            )

    @property
    def has_checkpoints(self) -> bool:
        """Whether a checkpoint was saved, from which the run can be resumed."""
        return any(self.checkpoints.glob("step-*"))

    @property
    def recipe(self) -> Path:
        """All settings of the run."""
        return self.path / "recipe.json"

    @property
    def training_images(self) -> Path:
        """Hashes of the images that the network was trained on or selected by."""
        return self.path / "training-images.npy"

    @property
    def labeled_images(self) -> Path:
        """Hashes of the images whose labels the network was trained on."""
        return self.path / "labeled-images.npy"

    @property
    def test_images(self) -> Path:
        """Hashes of the test images of a fine-tuned run, and which of them are classified correctly."""
        return self.path / "test-images.npz"

    @property
    def step_losses(self) -> Path:
        """The loss of every step of a trial of a learning-rate search, float64 without a header."""
        return self.path / "step-losses.f64"

    @property
    def data_sample(self) -> Path:
        """A few training images, and the number of images of each class."""
        return self.path / "data-sample.npz"

    @property
    def environment(self) -> Path:
        """Versions, device and threads."""
        return self.path / "environment.json"

    @property
    def log(self) -> Path:
        """One line per step or evaluation."""
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
        """The run that selected the number of steps, if this one is trained on validation images too."""
        return self.path / "selection"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def probes(self) -> Path:
        return self.path / "probes"

    @property
    def history(self) -> Path:
        """Probes during training, one file per step."""
        return self.probes / "history"

    @property
    def evaluations(self) -> Path:
        """Evaluations of a fine-tuned run's classifier."""
        return self.path / "evaluations"

    @property
    def low_data(self) -> Path:
        """Test errors with few labels, and the run folders of fine-tuning on each subset."""
        return self.path / "low-data"

    @property
    def scores(self) -> Path:
        """Scores of images: a folder for each dataset and setting."""
        return self.path / "scores"

    @property
    def neighbors(self) -> Path:
        """Near-duplicates and outliers of images: a folder for each dataset and setting."""
        return self.path / "neighbors"

    @property
    def analysis(self) -> Path:
        """Numbers and figures of `isopix analyze`."""
        return self.path / "analysis"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run's lock; raises ValueError that names the process that holds it."""
        with exclusive_lock(self.path, "run folder"):
            recover(self.checkpoints)
            yield


def _is_abandoned_start(path: Path, names: Collection[str]) -> bool:
    """Return whether a folder has these names from a start that was killed before its first checkpoint."""
    if set(names) == {LOCK_FILE}:  # it was killed before it had more
        return is_lock(path / LOCK_FILE)
    known = {*KNOWN_BY} <= set(names) <= {*START_FOLDERS, *START_FILES}
    return known and all(map(is_temporary, (path / "checkpoints").iterdir()))


def require_new(path: Path, allowed: Collection[str] = ()) -> None:
    """Raise ValueError for a path where no run folder can be created; the folder may hold `allowed` names,
    and what a start that was killed has left.
    """
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; a run folder needs another --out")
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{path} is a symbolic link to {path.readlink()}, which does not exist; create it")
    if any(parent.exists() and not parent.is_dir() for parent in path.parents):
        raise ValueError(f"run folder {path} cannot be created: part of its path is a file")
    if path.is_dir():
        names = {each.name for each in path.iterdir()} - set(allowed)
        if names and not _is_abandoned_start(path, names):
            raise ValueError(_taken(path))


def reject_huggingface_model(folder: Path, name: object) -> None:
    """Raise ValueError for a folder of a Hugging Face model; `name` is how the user refers to it."""
    if (folder / "config.json").is_file() and not RunFolder(folder).recipe.is_file():
        line = command_line("convert", "huggingface", name, "OUT")
        raise ValueError(f"{name} is a Hugging Face model; {line} converts it to a run folder")


def _taken(path: Path) -> str:
    if RunFolder(path).recipe.is_file() and not any(path.glob("checkpoints/step-*/imported.json")):
        resume = command_line("resume", path)
        return f"run folder {path} is not empty; choose another --out, or resume with: {resume}"
    return f"folder {path} is not empty; choose another --out"


def _run_around(checkpoint: Path) -> str:
    run = checkpoint.absolute().parent.parent
    if not RunFolder(run).recipe.is_file():
        return (
            "it is a saved model, which is read-only: use isopix verify, publish or convert to-huggingface, "
            "or isopix.load in Python, to sample and extract features"
        )
    return f"give {checkpoint.parent.parent if len(checkpoint.parts) > 2 else run}"
