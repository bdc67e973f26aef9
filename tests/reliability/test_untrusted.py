"""Files of strangers: nothing in them is executed, and each that cannot be read is one line."""

import io
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from isopix.codecs.palette_spec import read_palette
from isopix.data.dataset import DataConfig, load_dataset
from isopix.recipes import registry

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)


@dataclass
class Payload:
    """What a pickle would run."""

    canary: Path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.canary}",)


def load(path: Path) -> object:
    config = DataConfig(source=str(path), rows=8, cols=8, holdout=0.0)
    return load_dataset(config, cache=path.parent / "cache")


READERS: dict[str, Callable[[Path], object]] = {
    "set.npz": load,
    "set.parquet": load,
    "set.tar": load,
    "palette.npy": lambda path: read_palette(path, value_range=(-1.0, 1.0)),
    "settings.yaml": lambda path: registry.resolve("igpt.tiny", file=path),
}


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz(content: bytes, member: str = "x_train.npy", kind: int = stat.S_IFREG) -> bytes:
    file, info = io.BytesIO(), zipfile.ZipInfo(member)
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, content)
    return file.getvalue()


def contents(canary: Path) -> list[bytes]:
    payload = Payload(canary)
    python = f"!!python/object/apply:os.system ['touch {canary}']".encode()
    objects = npy(np.array([payload], dtype=object))
    outside = [npz(npy(IMAGES), name) for name in ("../x_train.npy", "/etc/x_train.npy", "..")]
    links = [npz(b"/etc/passwd", kind=kind) for kind in (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR)]
    plain = [b"", b"\0" * 64, b"[" * 100_000]
    return [*plain, pickle.dumps(payload), objects, npz(objects), python, *outside, *links]


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_executed_or_written_and_the_error_is_one_line(tmp_path: Path, name: str) -> None:
    for content in contents(tmp_path / "canary"):
        (tmp_path / name).write_bytes(content)
        text = ""
        try:
            READERS[name](tmp_path / name)
        except (ValueError, OSError, RuntimeError) as error:
            text = str(error)
        assert "\n" not in text, content[:40]
        assert {path.name for path in tmp_path.iterdir()} <= {name, "cache"}, content[:40]
