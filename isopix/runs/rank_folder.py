"""The run folder of each rank: that of rank 0 is the run, those of the others are temporary views of it."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from isopix.core import ranks
from isopix.storage.run_folder import RunFolder
from isopix.storage.run_start import start_run
from isopix.train.parallel import barrier


@contextmanager
def new_run(path: Path, allowed: Collection[str] = ()) -> Iterator[RunFolder]:
    """Start a run as `start_run` does; ranks other than 0 get a temporary view of it, in which they save
    nothing.
    """
    barrier()  # all have checked that the path is free
    if ranks.rank() == 0:
        with start_run(path, allowed) as run:
            yield run
    else:
        with TemporaryDirectory(prefix="isopix-rank-") as temporary:
            run = RunFolder(Path(temporary) / "run", saved_at=path)
            run.path.mkdir()
            run.create_folders()
            yield run
    barrier()  # the run is complete


@contextmanager
def existing_run(path: Path) -> Iterator[RunFolder]:
    """Open a run and hold its lock; ranks other than 0 get a temporary view, as in `new_run`.

    Raises ValueError for a path that is no run folder, or is in use.
    """
    run = RunFolder.open(path)
    if ranks.rank() == 0:
        with run.lock():
            barrier()
            yield run
    else:
        barrier()
        with TemporaryDirectory(prefix="isopix-rank-") as temporary:
            yield run.view(Path(temporary) / "run")
    barrier()
