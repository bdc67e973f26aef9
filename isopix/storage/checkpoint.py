"""A checkpoint is a folder that is whole or not there, and that knows the hash of each of its files."""

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from isopix.storage import safetensors_io
from isopix.storage.atomic import MAX_JSON, fsync_folder, json_bytes, read_json, report_disk_full, write_bytes

MANIFEST = "manifest.json"
FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9_-]+")
FILE_NAME = re.compile(rf"({NAME.pattern})\.(safetensors|json)")
STEP_NAME = re.compile(r"step-(\d{8,})")
TEMPORARY_NAME = re.compile(r"\.tmp-(?P<target>.+)-(?P<pid>[1-9]\d{0,8})(-replaced)?")

Groups = Mapping[str, Mapping[str, Tensor]]


class DamagedCheckpointError(ValueError):
    """A checkpoint that is not what was saved: `path`, and the `reason`, which names the file."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"checkpoint {path}: {reason}")
        self.path, self.reason = path, reason


class Checkpoint(NamedTuple):
    """What was saved: tensors (on the CPU) by group and name, records by name, and where it lies."""

    tensors: dict[str, dict[str, Tensor]]
    records: dict[str, dict[str, Any]]
    path: Path


class LatestCheckpoint(NamedTuple):
    """The newest intact checkpoint, None where none was ever saved, and the newer ones that are damaged."""

    checkpoint: Checkpoint | None
    rejected: list[DamagedCheckpointError]


class FileEntry(NamedTuple):
    """What the manifest says of one file."""

    size: int  # bytes
    sha256: str


def step_folder(checkpoints: Path, step: int) -> Path:
    """Where the checkpoint of a step lives."""
    return checkpoints / f"step-{step:08d}"


def save_checkpoint(folder: Path, tensors: Groups, records: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a checkpoint in one piece: `<group>.safetensors`, `<record>.json`, then `manifest.json`.

    A kill at any moment leaves the whole folder or none; an older folder of that name is replaced. Raises
    RuntimeError if the disk is full, ValueError if a part has no plain name or a record is too long.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    recover(folder.parent, folder.name)
    temporary = folder.with_name(f".tmp-{folder.name}-{os.getpid()}")
    size = sum(tensor.nbytes for group in tensors.values() for tensor in group.values())
    with report_disk_full(f"checkpoint {folder} of {size} bytes", folder.parent):
        try:
            temporary.mkdir()
            _fill(temporary, tensors, records)
            _publish(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def load_checkpoint(folder: Path, groups: Collection[str] | None = None) -> Checkpoint:
    """All records and all tensors, or those of some groups; each file is verified before it is read.

    Raises DamagedError, a ValueError, that names the file and what is wrong with it.
    """
    try:
        entries = _read_manifest(folder)
        missing = [f"{group}.safetensors" for group in groups or () if f"{group}.safetensors" not in entries]
        if missing:
            raise DamagedCheckpointError(folder, f"{missing[0]} is missing from {MANIFEST}")
        wanted = {name: entries[name] for name in entries if _is_wanted(Path(name), groups)}
        for name, entry in wanted.items():
            _verify(folder, name, entry)
        paths = [folder / name for name in wanted]
        tensors = {path.stem: _read_tensors(path) for path in paths if path.suffix == ".safetensors"}
        records = {path.stem: _read_json(path) for path in paths if path.suffix == ".json"}
    except OSError as error:
        raise DamagedCheckpointError(folder, f"cannot be read: {error}") from None
    return Checkpoint(tensors, records, folder)


def load_latest(checkpoints: Path, groups: Collection[str] | None = None) -> LatestCheckpoint:
    """The newest intact `step-NNNNNNNN` in the folder, loaded as `load` does.

    Raises DamagedError about the newest if there are checkpoints and none is intact.
    """
    rejected: list[DamagedCheckpointError] = []
    for folder in _newest_first(checkpoints):
        try:
            return LatestCheckpoint(load_checkpoint(folder, groups), rejected)
        except DamagedCheckpointError as error:
            rejected.append(error)
    if rejected:
        raise DamagedCheckpointError(
            rejected[0].path, f"{rejected[0].reason}; no checkpoint in {checkpoints} is intact"
        )
    return LatestCheckpoint(None, [])


def latest_folder(checkpoints: Path) -> Path | None:
    """The newest `step-NNNNNNNN` in the folder, intact or not; None where there is none."""
    return next(iter(_newest_first(checkpoints)), None)


def verify_files(folder: Path) -> list[str]:
    """The files of a checkpoint, each of which has the hash that its manifest states.

    Raises DamagedError about the first that has not.
    """
    try:
        entries = _read_manifest(folder)
        for name, entry in entries.items():
            _verify(folder, name, entry)
    except OSError as error:
        raise DamagedCheckpointError(folder, f"cannot be read: {error}") from None
    return list(entries)


def prune(checkpoints: Path, keep: int = 2) -> list[Path]:
    """Delete and return what is older than the `keep`-th newest intact checkpoint; the only one stays."""
    if keep < 1:
        raise ValueError(f"keep {keep} must be at least 1")
    intact, deleted = 0, []
    for folder in _newest_first(checkpoints):
        if intact == keep:
            shutil.rmtree(folder)
            deleted.append(folder)
        else:
            intact += _is_intact(folder)
    return deleted


def recover(checkpoints: Path, name: str = "") -> None:
    """Clear up after processes that died while saving a step, or `name`: what is whole gets its name."""
    for stray in sorted(checkpoints.glob(".tmp-*")):
        match = TEMPORARY_NAME.fullmatch(stray.name)
        if match is None or _is_another_process(int(match["pid"])):
            continue
        if match["target"] != name and not STEP_NAME.fullmatch(match["target"]):
            continue  # the folder may be anybody's
        target = checkpoints / match["target"]
        if not target.exists() and _is_intact(stray):
            stray.rename(target)
            fsync_folder(checkpoints)
        else:
            shutil.rmtree(stray)


def _fill(folder: Path, tensors: Groups, records: Mapping[str, Mapping[str, Any]]) -> None:
    for name in [*tensors, *records]:
        if not NAME.fullmatch(name) or f"{name}.json" == MANIFEST:
            raise ValueError(f"'{name}' cannot name a part of a checkpoint; letters, digits, '_' and '-' can")
    for group, members in tensors.items():
        safetensors_io.write_tensors(folder / f"{group}.safetensors", members)
    for record, values in records.items():
        data = json_bytes(values)
        if len(data) > MAX_JSON:
            raise ValueError(
                f"{record}.json has {len(data)} bytes; a record of a checkpoint has at most {MAX_JSON}"
            )
        write_bytes(folder / f"{record}.json", data)
    entries = {path.name: FileEntry(path.stat().st_size, _sha256(path))._asdict() for path in _parts(folder)}
    write_bytes(folder / MANIFEST, json_bytes({"format": FORMAT, "files": entries}))
    fsync_folder(folder)


def _parts(folder: Path) -> list[Path]:
    """The files of our kinds; whatever else the user keeps there is not ours."""
    return [
        path for path in sorted(folder.iterdir()) if FILE_NAME.fullmatch(path.name) and path.name != MANIFEST
    ]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _publish(temporary: Path, folder: Path) -> None:
    """Give a whole checkpoint its name; an old bearer steps aside: folders cannot be renamed over others."""
    aside = temporary.with_name(f"{temporary.name}-replaced")
    if folder.exists():
        folder.rename(aside)
    temporary.rename(folder)
    fsync_folder(folder.parent)
    if aside.exists():
        shutil.rmtree(aside)


def _newest_first(checkpoints: Path) -> list[Path]:
    steps = {int(m[1]): path for path in checkpoints.glob("step-*") if (m := STEP_NAME.fullmatch(path.name))}
    return [steps[step] for step in sorted(steps, reverse=True)]


def _is_another_process(pid: int) -> bool:
    """Whether it runs and is not this one: what bears our own number was left by an earlier bearer of it."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_wanted(file: Path, groups: Collection[str] | None) -> bool:
    return groups is None or file.suffix == ".json" or file.stem in groups


def _is_intact(folder: Path) -> bool:
    try:
        verify_files(folder)
    except DamagedCheckpointError:
        return False
    return True


def _read_manifest(folder: Path) -> dict[str, FileEntry]:
    """The files that make up the checkpoint; whatever else of our kinds lies in the folder is refused."""
    if not folder.is_dir():
        raise DamagedCheckpointError(folder, "is no folder" if folder.exists() else "does not exist")
    if not (folder / MANIFEST).is_file():
        raise DamagedCheckpointError(folder, f"{MANIFEST} is missing")
    manifest = _read_json(folder / MANIFEST)
    if manifest.get("format") != FORMAT:
        raise DamagedCheckpointError(
            folder, f"{MANIFEST} has format {manifest.get('format')!r}; known: {FORMAT}"
        )
    if not isinstance(manifest.get("files"), dict):
        raise DamagedCheckpointError(folder, f"{MANIFEST} lists no files")
    entries = {name: _entry(folder, name, values) for name, values in manifest["files"].items()}
    for path in _parts(folder):
        if path.name not in entries:
            raise DamagedCheckpointError(folder, f"{path.name} is not in {MANIFEST}")
    return entries


def _entry(folder: Path, name: str, values: object) -> FileEntry:
    if not FILE_NAME.fullmatch(name):
        raise DamagedCheckpointError(folder, f"{MANIFEST} lists {name!r}, which is no name of a file here")
    match values:
        case {"size": int(size), "sha256": str(sha256)}:
            return FileEntry(size, sha256)
    raise DamagedCheckpointError(folder, f"{MANIFEST} gives no size and sha256 of {name}")


def _verify(folder: Path, name: str, entry: FileEntry) -> None:
    path = folder / name
    if not path.is_file():
        raise DamagedCheckpointError(folder, f"{name} is missing")
    size = path.stat().st_size
    if size != entry.size:
        wrong = "truncated" if size < entry.size else "too long"
        raise DamagedCheckpointError(folder, f"{name} has {size} bytes, manifest says {entry.size}: {wrong}")
    if _sha256(path) != entry.sha256:
        raise DamagedCheckpointError(
            folder, f"{name} does not have the sha256 that the manifest says: altered"
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except ValueError as error:
        raise DamagedCheckpointError(path.parent, str(error)) from None


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors_io.read_tensors(path)
    except ValueError as error:
        raise DamagedCheckpointError(path.parent, str(error)) from None
