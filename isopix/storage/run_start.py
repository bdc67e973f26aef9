"""The start of a run: its folder appears once it can be resumed, and a start that is killed leaves none."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from isopix.storage.atomic import temporary_path, temporary_target
from isopix.storage.lock import LOCK_FILE, exclusive_lock
from isopix.storage.run_folder import KNOWN_BY, START_FILES, START_FOLDERS, RunFolder, require_new


@contextmanager
def start_run(path: Path, allowed: Collection[str] = ()) -> Iterator[RunFolder]:
    """Create a run folder, hold its lock, and delete it again if it has no checkpoint at the end.

    A path that does not exist appears once it can be resumed: until `publish`, the run is in a hidden folder
    beside it. In a folder that exists, what a killed start has left is deleted. Raises ValueError if the
    folder has files other than `allowed`, or another process is starting a run there.
    """
    require_new(path, allowed)
    hidden = not path.exists()
    if hidden:
        path.parent.mkdir(parents=True, exist_ok=True)
        _delete_abandoned_starts(path)
    run = RunFolder(temporary_path(path), path) if hidden else RunFolder(path)
    run.path.mkdir(exist_ok=not hidden)
    with exclusive_lock(run.path, "run folder"):
        try:
            _delete_start_files(run, but=LOCK_FILE)  # of a start that was killed; the lock is held
            run.create_folders()
            yield run
            run.publish()
        except BaseException as error:
            if run.target is not None:
                shutil.rmtree(run.path, ignore_errors=True)  # absent if it has just been renamed
            elif not run.has_checkpoints:
                _delete_start_files(run)
                with suppress(OSError):  # the folder has other files
                    run.path.rmdir()
            _name_target(error, path)
            raise


def _name_target(error: BaseException, path: Path) -> None:
    """Write the path that a run was started for into the message of an error, in place of a hidden one."""
    hidden = temporary_path(path).name
    replaced = (each.replace(hidden, path.name) if isinstance(each, str) else each for each in error.args)
    error.args = tuple(replaced)
    if isinstance(error, OSError) and error.filename is not None:
        error.filename = str(error.filename).replace(hidden, path.name)


def _delete_start_files(run: RunFolder, *, but: str = "") -> None:
    """Delete what a run has before its first checkpoint, so that the same command works again.

    The lock and `checkpoints`, by which `require_new` knows what a start has left, go last.
    """
    names = [name for name in (*START_FILES, *START_FOLDERS) if name not in KNOWN_BY]
    for path in (run.path / name for name in (*names, *KNOWN_BY) if name != but):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _delete_abandoned_starts(path: Path) -> None:
    """Delete the hidden folders of starts that were killed."""
    for folder in path.parent.glob(f".tmp-{escape(path.name)}-*"):
        if temporary_target(folder) == path.name:
            with suppress(ValueError), exclusive_lock(folder, "run folder"):
                shutil.rmtree(folder)
