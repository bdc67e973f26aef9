"""Tar archives of samples, for tests."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

Member = tuple[str, bytes] | tarfile.TarInfo


def write_tar(path: Path, members: Iterable[Member], format: int = tarfile.USTAR_FORMAT) -> Path:
    """Write an archive of files, and of links and folders, which are given as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_bytes(members, format))
    return path


def tar_bytes(members: Iterable[Member], format: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return the content of an archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            name, content = member
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A link, folder or device."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made
