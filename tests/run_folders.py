"""Run folders that were not trained."""

from pathlib import Path

from isopix.storage.run_folder import RunFolder


def create_run(path: Path) -> RunFolder:
    """An empty run folder."""
    run = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    run.create_folders()
    return run
