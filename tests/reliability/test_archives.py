"""T16: archives of arrays write nothing, and hostile ones are refused."""

import io
import stat
import struct
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from isopix.data.dataset import DataConfig, load_dataset
from tests.peak_memory import peak_memory

NAMES = (
    "../x_train.npy",
    "../../../../tmp/x_train.npy",
    "/x_train.npy",
    "/etc/x_train.npy",
    "C:\\x_train.npy",
    "..\\x_train.npy",
    "a/../x_train.npy",
    "./x_train.npy",
    "x_train.npy/",
    "x_train.npy.npy",
    "X_TRAIN.npy",
    ".",
    "..",
    "x_train",
    "x" * 60_000,
)
KINDS = (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFDIR)


def _array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((4, 8, 8), np.uint8))
    return buffer.getvalue()


def _archive(*members: tuple[zipfile.ZipInfo | str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for member, content in members:
            archive.writestr(member, content)
    return buffer.getvalue()


def _of_kind(kind: int) -> bytes:
    member = zipfile.ZipInfo("x_train.npy")
    member.external_attr = (kind | 0o777) << 16
    return _archive((member, b"/etc/passwd"))


def _hostile() -> Iterator[bytes]:
    yield from (_archive((name, _array())) for name in NAMES)
    yield from (_of_kind(kind) for kind in KINDS)
    valid = _archive(("x_train.npy", _array()))
    encrypted = bytearray(valid)
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[valid.index(magic) + offset] |= 1
    yield bytes(encrypted)
    larger, smaller = bytearray(valid), bytearray(valid)
    place = valid.index(b"PK\x01\x02") + 24
    larger[place : place + 4] = struct.pack("<I", 2**32 - 2)
    smaller[place : place + 4] = struct.pack("<I", 100)
    yield bytes(larger)
    yield bytes(smaller)
    yield _archive(*((f"{i}.npy", b"") for i in range(10**5)))
    yield _archive(("x_train.npy", bytes(4 * 2**30 // 8)), compression=zipfile.ZIP_DEFLATED)
    yield _archive(("x_train.npy", valid))
    yield valid[:-10]
    yield valid[: len(valid) // 2]
    yield valid.replace(b"PK\x01\x02", b"PK\x07\x08")
    yield b"PK\x05\x06" + bytes(18)


def test_hostile_archives_are_refused_and_write_nothing(tmp_path: Path) -> None:
    inside, refused, count = tmp_path / "inside", 0, 0
    inside.mkdir()
    path = inside / "set.npz"
    for content in _hostile():
        path.write_bytes(content)
        start = time.perf_counter()
        with peak_memory() as peak:
            try:
                load_dataset(
                    DataConfig(source=str(path), rows=8, cols=8, holdout=0.0), cache=inside / "cache"
                )
            except ValueError as error:
                refused += len(str(error).splitlines()) == 1
        assert peak() < 2 * len(content) + 100 * 2**20
        assert time.perf_counter() - start < 10
        count += 1
    files = [each.name for each in tmp_path.rglob("*")]
    print(f"T16: {refused} of {count} hostile archives refused, {len(files) - 2} files written")  # noqa: T201
    assert (refused, count) == (count, 31)
    assert sorted(files) == ["inside", "set.npz"]
