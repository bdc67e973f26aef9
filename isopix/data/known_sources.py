"""Local datasets that this user has read: no run folder of another has others read unasked."""

import os
from contextlib import suppress
from pathlib import Path

from isopix.core.text import command_line
from isopix.data.sources.base import DATASETS
from isopix.storage.provenance import hash_bytes


def remember_source(source: str) -> None:
    """Add a path to the list, if it can be written; names of datasets are always known."""
    if not is_known_source(source):
        with suppress(OSError, RuntimeError):  # there is no home folder
            _list().parent.mkdir(parents=True, exist_ok=True)
            with _list().open("a") as file:
                file.write(f"{_entry(source)}\n")


def require_known_source(source: str) -> None:
    """Raise ValueError if the source of a run is an existing path that this user has not read before."""
    if Path(source).expanduser().exists() and not is_known_source(source):
        option = command_line("--data", source).removeprefix("isopix ")
        raise ValueError(
            f"this run was trained on {source}, which you have not used before; to read it, give {option}"
        )


def is_known_source(source: str) -> bool:
    """Return whether a source is the name of a dataset, or a path that is in the list."""
    with suppress(OSError, ValueError, RuntimeError):
        return source in DATASETS or _entry(source) in _list().read_text().split()
    return False


def _entry(source: str) -> str:
    return hash_bytes(os.fsencode(Path(source).expanduser().resolve()))


def _list() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "isopix" / "known-sources"
