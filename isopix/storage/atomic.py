"""Atomic writes that survive a kill or a power failure: bytes reach the disk before their name does."""

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isopix.storage.regular_file import read_regular

TEMPORARY_NAME = re.compile(r"\.tmp-(?P<target>.+)-(?P<pid>[1-9]\d{0,8})(-replaced)?")
MAX_INTEGER, MAX_DIGITS = 2**64, 20  # seeds are the largest integers that are written
MAX_JSON = 4 << 20  # bytes; the files that isopix writes are far smaller
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, user quota, process limit


def temporary_path(path: Path) -> Path:
    """Return where this process writes what is renamed to `path` once it is complete."""
    return path.with_name(f".tmp-{path.name}-{os.getpid()}")


def temporary_target(path: Path) -> str | None:
    """Return the name for which a process that has ended was writing `path`; None if it is still running, and
    for a path of another form.
    """
    match = TEMPORARY_NAME.fullmatch(path.name)
    return None if match is None or is_another_process(int(match["pid"])) else match["target"]


def is_temporary(path: Path) -> bool:
    """Return whether a path has the form of `temporary_path`."""
    return TEMPORARY_NAME.fullmatch(path.name) is not None


def is_another_process(pid: int) -> bool:
    """Return whether it is running and is not this process, whose id an earlier one may have had."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file; it is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Replace the file atomically: a reader sees the old values or the new. Raises ValueError on nan."""
    replace_file(path, json_bytes(values))


def replace_file(path: Path, data: bytes) -> None:
    """Replace the file atomically: a reader sees the old content or the new."""
    temporary = temporary_path(path)
    with report_disk_full(str(path), path.parent):
        try:
            write_bytes(temporary, data)
            temporary.rename(path)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_folder(path.parent)


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Return indented JSON; raises ValueError on nan and infinity, which JSON cannot represent."""
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()


def read_json(path: Path, *, max_bytes: int = MAX_JSON) -> dict[str, Any]:
    """Return the values of a JSON object; its numbers are finite, and its integers fit into 64 bits.

    Raises ValueError, which begins with the file's name, and OSError if the file cannot be read.
    """
    data = read_regular(path, max_bytes=max_bytes)
    try:
        values = json.loads(data, parse_constant=_finite, parse_float=_finite, parse_int=_small)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return values


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _small(text: str) -> int:
    value = int(text) if len(text) <= MAX_DIGITS else MAX_INTEGER
    if abs(value) >= MAX_INTEGER:
        raise ValueError(f"an integer of {len(text)} digits is too large; allowed: up to 64 bits")
    return value


def fsync_folder(folder: Path) -> None:
    """Make the names inside a folder survive a power failure (fsync of a file does not)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(target: Path, what: str) -> Iterator[Path]:
    """Yield a new folder next to `target`, to be filled and renamed to it, and delete it if it was not.

    A full disk raises RuntimeError that says that `what` did not fit.
    """
    temporary = temporary_path(target)
    with report_disk_full(what, target.parent):
        try:
            temporary.mkdir()
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def report_disk_full(what: str, folder: Path) -> Iterator[None]:
    """Turn a full disk into a RuntimeError that says what did not fit, what is free and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL_ERRNOS:
            raise
        free = shutil.disk_usage(folder).free
        action = "raise the limit of file sizes" if error.errno == errno.EFBIG else "free some space"
        raise RuntimeError(
            f"{what} cannot be written: {os.strerror(error.errno).lower()}, {free} bytes free in {folder}; "
            f"what was saved before is intact: {action}, then run it again or resume it"
        ) from None
