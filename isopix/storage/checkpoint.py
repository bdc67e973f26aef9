"""Checkpoints: folders that are complete or absent, with a manifest of the hash of each file."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from isopix.core.text import error_line
from isopix.storage.arrays import read_shards, write_tensors
from isopix.storage.atomic import (
    MANIFEST,
    delete,
    fsync_folder,
    json_bytes,
    read_json,
    temporary_folder,
    write_bytes,
    write_json,
)
from isopix.storage.provenance import sha256_of

T = TypeVar("T")

FORMAT = 2
NAME = re.compile(r"[A-Za-z0-9_-]+")
FILE_NAME = re.compile(rf"({NAME.pattern})(/{NAME.pattern}\.safetensors|\.(safetensors|json))")
STEP_NAME = re.compile(r"step-(\d{8,})")

Groups = Mapping[str, Mapping[str, Tensor]]
Entries = Mapping[str, Mapping[str, Any]]  # "size" in bytes and "sha256" of each file


class DamagedCheckpointError(ValueError):
    """A damaged checkpoint: its `path`, and the `reason`, which names the file."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"checkpoint {path}: {reason}")
        self.path, self.reason = path, reason


class Checkpoint(NamedTuple):
    """Tensors (on the CPU) by group and name, records by name, and the folder."""

    tensors: dict[str, dict[str, Tensor]]
    records: dict[str, dict[str, Any]]
    path: Path


def step_folder(checkpoints: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return checkpoints / f"step-{step:08d}"


def save_checkpoint(
    folder: Path,
    tensors: Groups,
    records: Mapping[str, Mapping[str, Any]],
    write_more: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write a checkpoint atomically: `<group>.safetensors`, `<record>.json`, then `manifest.json`.

    `write_more` may add files: groups in several, `<group>/<shard>.safetensors`, and others, which the
    manifest does not list.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    size = sum(tensor.nbytes for group in tensors.values() for tensor in group.values())
    with temporary_folder(folder, f"checkpoint {folder} of {size} bytes") as temporary:
        write_more(temporary)
        _fill(temporary, tensors, records)
        _publish(temporary, folder)


def load_checkpoint(
    folder: Path, groups: Collection[str] | None = None, optional: Collection[str] = ()
) -> Checkpoint:
    """Return all records, and tensors, or those of groups; DamagedCheckpointError names a changed file."""
    with reported_as_damage(folder):
        entries = _read_manifest(folder)
        files: dict[str, list[str]] = {}  # of each group: one, or its shards
        for name in sorted(name for name in entries if name.endswith(".safetensors")):
            files.setdefault(name.partition("/")[0].removesuffix(".safetensors"), []).append(name)
        for group in sorted({*(groups or ())} - {*files, *optional}):
            raise ValueError(f"{group}.safetensors is missing from {MANIFEST}")
        chosen = {group: names for group, names in files.items() if groups is None or group in groups}
        jsons = [name for name in entries if name.endswith(".json")]
        for name in chain(jsons, *chosen.values()):
            _verify(folder, name, entries)
        tensors = {group: read_shards([folder / name for name in names]) for group, names in chosen.items()}
        records = {name.removesuffix(".json"): read_json(folder / name) for name in jsons}
    return Checkpoint(tensors, records, folder)


def load_latest(
    checkpoints: Path, load: Callable[[Path], T]
) -> tuple[T | None, list[DamagedCheckpointError]]:
    """Load the latest intact checkpoint, None if none was ever saved, and return what later ones raised."""
    damaged: list[DamagedCheckpointError] = []
    for folder in _latest_first(checkpoints):
        try:
            return load(folder), damaged
        except DamagedCheckpointError as error:
            damaged.append(error)
    if damaged:
        reason = f"{damaged[0].reason}; no checkpoint in {checkpoints} is intact"
        raise DamagedCheckpointError(damaged[0].path, reason)
    return None, []


def latest_folder(checkpoints: Path) -> Path | None:
    """Return the latest `step-NNNNNNNN` in the folder, intact or not; None if there is none."""
    return next(iter(_latest_first(checkpoints)), None)


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder is a checkpoint, or a saved model, which has the same files."""
    return (folder / MANIFEST).is_file()


def verify_files(folder: Path) -> list[str]:
    """Return the files, all hashes compared. Raises DamagedCheckpointError about the first that differs."""
    with reported_as_damage(folder):
        entries = _read_manifest(folder)
        for name in entries:
            _verify(folder, name, entries)
    return list(entries)


def prune(checkpoints: Path, keep: int = 2) -> None:
    """Delete the checkpoints older than the `keep` latest intact ones."""
    folders, intact = _latest_first(checkpoints), 0
    for folder in folders if len(folders) > keep else ():
        if intact == keep:
            delete(folder)
            continue
        with suppress(DamagedCheckpointError):
            verify_files(folder)
            intact += 1


def _fill(folder: Path, tensors: Groups, records: Mapping[str, Mapping[str, Any]]) -> None:
    for group, members in tensors.items():
        write_tensors(folder / f"{group}.safetensors", members)
    for record, values in records.items():
        write_bytes(folder / f"{record}.json", json_bytes(values))
    files = {name: folder / name for name in _names(folder)}
    entries = {name: {"size": path.stat().st_size, "sha256": sha256_of(path)} for name, path in files.items()}
    write_json(folder / MANIFEST, {"format": FORMAT, "files": entries})
    for each in {folder, *(path.parent for path in files.values())}:
        fsync_folder(each)


def _names(folder: Path) -> list[str]:
    """The paths of tensors and records inside a checkpoint."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return [name for name in found if FILE_NAME.fullmatch(name) and name != MANIFEST]


def _publish(temporary: Path, folder: Path) -> None:
    """Rename a complete checkpoint; an older one is moved first, because folders cannot be overwritten."""
    replaced = temporary.with_name(f"{temporary.name}-replaced")
    if folder.is_dir():
        folder.rename(replaced)
    else:
        delete(folder)
    temporary.rename(folder)
    fsync_folder(folder.parent)
    delete(replaced)


def _latest_first(checkpoints: Path) -> list[Path]:
    matches = ((STEP_NAME.fullmatch(path.name), path) for path in checkpoints.glob("step-*"))
    steps = [(int(match[1]), path) for match, path in matches if match]
    return [path for _, path in sorted(steps, reverse=True)]


@contextmanager
def reported_as_damage(folder: Path) -> Iterator[None]:
    """Turn what is raised about wrong content of a checkpoint into DamagedCheckpointError, in one line."""
    try:
        yield
    except OSError as error:
        raise DamagedCheckpointError(folder, f"cannot be read: {error}") from None
    except ValueError as error:
        raise DamagedCheckpointError(folder, str(error)) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise DamagedCheckpointError(folder, f"{MANIFEST} is damaged: {error_line(error)}") from error


def _read_manifest(folder: Path) -> Entries:
    if not folder.is_dir():
        raise ValueError("is not a folder" if folder.exists() else "does not exist")
    if not (folder / MANIFEST).is_file():
        raise ValueError(f"{MANIFEST} is missing")
    values = read_json(folder / MANIFEST)
    if values.get("format") != FORMAT:
        found = f"{MANIFEST} has format {values.get('format')!r}; this version reads {FORMAT}"
        raise ValueError(f"{found}: train again")
    files: Entries = values["files"]
    for name in files:
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"{MANIFEST} lists {name!r}, which is not an allowed file name")
    for name in {*_names(folder)} - files.keys():
        raise ValueError(f"{name} is not in {MANIFEST}")
    return files


def _verify(folder: Path, name: str, entries: Entries) -> None:
    path, size, digest = folder / name, entries[name]["size"], entries[name]["sha256"]
    if not path.is_file():
        raise ValueError(f"{name} is missing")
    if path.stat().st_size != size:
        raise ValueError(f"{name} has {path.stat().st_size} bytes, {MANIFEST} has {size}")
    if sha256_of(path) != digest:
        raise ValueError(f"{name} does not have the SHA-256 of {MANIFEST}: changed")
