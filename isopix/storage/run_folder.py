"""Run folders: the path of every file, a start that leaves none if killed, and a lock for one process."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isopix.core.text import command_line, similar_paths
from isopix.storage import atomic
from isopix.storage.checkpoint import latest_folder

# Hashes of the images trained on or selected by, and of those whose labels were trained on.
SEEN, LABELED = "training-images.npy", "labeled-images.npy"
# What a run has before its first checkpoint.
START_FOLDERS = ("checkpoints", "best", "samples", "probes", "tensorboard")
START_FILES = (
    "recipe.json",
    "environment.json",
    "log.jsonl",
    SEEN,
    LABELED,
    "data-sample.npz",
    "bad-files.csv",
    atomic.LOCK_FILE,
)
FOLDER_LOCK, SETTINGS = "folder.lock", "folder.settings"  # of a folder of runs; each has its own lock, too
MAX_NAMED = 3  # runs beside a folder that does not exist
KNOWN_BY = ("checkpoints", atomic.LOCK_FILE)  # a start creates the lock first, and deletes these last


class _Inside:
    def __init__(self, name: str):
        self.name = name

    def __get__(self, run: "RunFolder", owner: type) -> Path:
        return run.path / self.name


@dataclass
class RunFolder:
    """The paths of one run; use `start_run` or `open`, which check the folder."""

    path: Path
    target: Path | None = None  # where `publish` moves a run that has just been started
    saved_at: Path | None = None  # of a view: the run that another process saves

    recipe = _Inside("recipe.json")  # all settings
    environment = _Inside("environment.json")  # versions, device, data
    log = _Inside("log.jsonl")  # one line per step or evaluation
    checkpoints = _Inside("checkpoints")
    best = _Inside("best")  # the checkpoint with the best validation accuracy or loss
    selection = _Inside("selection")  # the run that selected the number of steps of a refit
    test_images = _Inside("test-images.npz")  # which of them a fine-tuned run classifies correctly
    data_sample = _Inside("data-sample.npz")  # a few training images, and the images of each class
    samples = _Inside("samples")
    probes = _Inside("probes")
    history = _Inside("probes/history")  # probes during training, one file per step
    evaluations = _Inside("evaluations")  # of a fine-tuned run's classifier
    low_data = _Inside("low-data")  # test errors with few labels, and the runs of fine-tuning
    analysis = _Inside("analysis")  # numbers and figures of `isopix analyze`
    report = _Inside("report.html")

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
            if name != atomic.LOCK_FILE and (self.path / name).is_file():
                shutil.copyfile(self.path / name, path / name)
        return run

    @property
    def saved(self) -> "RunFolder":
        """The run where it is saved: this one, unless it is a view."""
        return self if self.saved_at is None else RunFolder(self.saved_at)

    def publish(self) -> None:
        """Give a run that has been started its own name, now that it can be resumed."""
        if self.target is None:
            return
        try:
            self.path.rename(self.target)
        except OSError:
            if not self.target.exists():
                raise
            raise ValueError(_taken(self.target)) from None
        atomic.fsync_folder(self.target.parent)
        self.path, self.target = self.target, None

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open a run folder; raises ValueError for other folders and for checkpoints."""
        if not path.is_dir():
            raise ValueError(no_folder(path))
        if (path / atomic.MANIFEST).is_file():
            raise ValueError(f"{path} is a checkpoint, not a run folder; {_run_around(path)}")
        reject_huggingface_model(path, path)
        run = cls(path)
        if not run.recipe.is_file():
            again = "repeat the pretrain or finetune command to resume it"
            selects = f"{run.selection} selects its learning rate or steps; {again}"
            why = selects if run.selection.is_dir() else "it is not a run folder"
            raise ValueError(f"{path} has no recipe.json; {why}")
        return run

    @property
    def has_checkpoints(self) -> bool:
        return latest_folder(self.checkpoints) is not None

    def read_recipe(self) -> dict[str, Any]:
        """Return the settings of the run as plain values. Raises ValueError if they are not JSON."""
        try:
            return atomic.read_json(self.recipe)
        except ValueError as error:
            raise ValueError(f"run {self.path}: {error}") from None

    @contextmanager
    def lock(self) -> Iterator["RunFolder"]:
        """Hold the run's lock, and yield the run. Raises ValueError that names the process that holds it."""
        own_folder(self.path)
        with atomic.exclusive_lock(self.path, "run folder"):
            for folder in (self.path, self.checkpoints):
                atomic.sweep(folder)
            yield self


def own_folder(run: Path, name: str = "") -> Path:
    """Return a folder of a run, for writing. Raises ValueError where a link leads out of the run."""
    own = run / name
    for path in (own, *own.rglob("*")):
        if path.is_symlink() and path.is_dir() and not path.resolve().is_relative_to(run.resolve()):
            where = f"{path} is a link to {path.resolve()}, outside of {run}"
            raise ValueError(f"{where}; nothing is written there: put a folder in its place")
    return own


@contextmanager
def start_run(path: Path) -> Iterator[RunFolder]:
    """Create a run folder, hold its lock, and delete it again if it has no checkpoint at the end.

    Until `publish`, a new run is in a hidden folder next to its path. In a folder that exists, what a killed
    start has left is deleted; the runs that have selected its settings may be there.
    """
    allowed = [RunFolder(path).selection.name]
    require_new(path, allowed)
    hidden = not path.exists()
    if hidden:
        path.parent.mkdir(parents=True, exist_ok=True)
    run = RunFolder(atomic.temporary_path(path), path) if hidden else RunFolder(path)
    run.path.mkdir(exist_ok=not hidden)
    with atomic.exclusive_lock(run.path, "run folder"):
        require_new(run.path, allowed)  # again: another run may have started and ended since
        try:
            _delete_start_files(run, but=atomic.LOCK_FILE)  # of a start that was killed; the lock is held
            run.create_folders()
            yield run
            run.publish()
        except BaseException:
            if run.target is not None:
                shutil.rmtree(run.path, ignore_errors=True)  # absent if it has just been renamed
            elif not run.has_checkpoints:
                _delete_start_files(run)
                with suppress(OSError):  # the folder has other files
                    run.path.rmdir()
            raise


def _delete_start_files(run: RunFolder, *, but: str = "") -> None:
    """Delete what precedes the first checkpoint; what `require_new` knows a start by goes last."""
    names = [name for name in (*START_FILES, *START_FOLDERS) if name not in KNOWN_BY]
    for path in (run.path / name for name in (*names, *KNOWN_BY) if name != but):
        atomic.delete(path)


def _is_abandoned_start(path: Path, names: Collection[str]) -> bool:
    if set(names) == {atomic.LOCK_FILE}:
        return atomic.is_lock(path / atomic.LOCK_FILE)
    known = {*KNOWN_BY} <= set(names) <= {*START_FOLDERS, *START_FILES}
    return known and all(map(atomic.is_temporary, (path / "checkpoints").iterdir()))


def require_new(path: Path, allowed: Collection[str] = ()) -> None:
    """Raise ValueError where no run can start; `allowed` names and a killed start's files may be there."""
    existing = next(each for each in (path, *path.parents) if each.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is a file; a run folder needs another --out")
    if path.is_symlink() and not path.exists():
        raise ValueError(f"{path} is a symbolic link to {path.readlink()}, which does not exist; create it")
    if path.is_dir():
        names = {each.name for each in path.iterdir() if not atomic.is_temporary(each)} - set(allowed)
        if names and not _is_abandoned_start(path, names):
            raise ValueError(_taken(path))


def runs_in(folder: Path) -> list[Path]:
    """Return the run folders in a folder, by their names; none if it is itself a run, or will be one."""
    own = RunFolder(folder)
    inside = [] if own.recipe.is_file() or own.selection.is_dir() else folder.glob("*/recipe.json")
    return sorted(each.parent for each in inside)


def no_folder(path: Path) -> str:
    """Return that there is no folder at a path, and what may be meant: a similar name, or the runs there."""
    runs = [str(each.parent) for each in sorted(path.parent.glob("*/recipe.json"))]
    meant = similar_paths(path, folders=True) or (runs if len(runs) <= MAX_NAMED else [])
    return f"no folder {path}" + (f"; did you mean {' or '.join(meant)}?" if meant else "")


def reject_huggingface_model(folder: Path, name: object) -> None:
    """Raise ValueError for a folder of a Hugging Face model; `name` is how the user refers to it."""
    if (folder / "config.json").is_file() and not RunFolder(folder).recipe.is_file():
        line = command_line("import", name, "OUT")
        raise ValueError(f"{name} is a Hugging Face model; {line} makes a run folder of it")


def _taken(path: Path) -> str:
    if RunFolder(path).recipe.is_file() and not any(path.glob("checkpoints/step-*/imported.json")):
        resume = command_line("resume", path)
        return f"run folder {path} is not empty; choose another --out, or resume with: {resume}"
    return f"folder {path} is not empty; choose another --out"


def _run_around(checkpoint: Path) -> str:
    run = checkpoint.absolute().parent.parent
    if RunFolder(run).recipe.is_file():
        return f"give {checkpoint.parent.parent if len(checkpoint.parts) > 2 else run}"
    return "it is a saved model, for isopix evaluate and export, and isopix.load"
