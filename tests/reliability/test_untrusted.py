"""Files of strangers: nothing in them is executed, and each that cannot be read is one line.

Pipes, devices and files of a terabyte are refused before they are read.
"""

import io
import os
import pickle
import re
import signal
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.codecs.palette_spec import read_palette
from isopix.core.registry import load_plugin
from isopix.data.dataset import DataConfig, load_dataset
from isopix.data.decode import read_mask
from isopix.interop import openai
from isopix.recipes import registry
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import read_json
from isopix.storage.log import read_log
from isopix.storage.result import Result
from tests.unit.data.refusal import refusal

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)


@dataclass
class Payload:
    """What a pickle would run."""

    canary: Path

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.canary}",)


def load(path: Path, label_column: str | None = None) -> object:
    config = DataConfig(source=str(path), rows=8, cols=8, holdout=0.0, label_column=label_column)
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


def load_labels(path: Path) -> object:
    Image.fromarray(IMAGES[0]).save(path.parent / "0.png")
    return load(path.parent, "label")


READ_WHOLE = READERS | {
    **dict.fromkeys(
        ("set/a.tar", "set/a.parquet", "set/a.arrow", "set/a.png"), lambda path: load(path.parent)
    ),
    "set/metadata.csv": load_labels,
    "mask.png": read_mask,
    "log.jsonl": read_log,
    "recipe.json": read_json,
    "sample.json": Result.read,
    "data-sample.npz": read_arrays,
    "model.index": lambda path: openai.open_checkpoint(path.with_suffix("")),
    "plugin.py": load_plugin,
}
READ_IN_PART = {"set.npz", "set.parquet", "set.tar", "set/a.tar", "set/a.parquet", "set/a.arrow"}


@contextmanager
def fed(pipe: Path) -> Iterator[None]:
    """Let whoever opens the pipe find its end, so that nobody waits."""
    done = threading.Event()

    def feed() -> None:
        while not done.is_set():
            os.close(os.open(pipe, os.O_WRONLY))

    thread = threading.Thread(target=feed)
    thread.start()
    yield
    done.set()
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    thread.join()
    os.close(end)


@pytest.mark.parametrize("name", READ_WHOLE)
def test_pipes_and_devices_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "set").mkdir()
    path = tmp_path / name
    os.mkfifo(path)
    with fed(path):
        pipe = refusal(READ_WHOLE[name], path, kind=(ValueError, OSError))
    path.unlink()
    path.symlink_to("/dev/null")
    device = refusal(READ_WHOLE[name], path, kind=(ValueError, OSError))
    for text in (pipe, device):
        assert re.search("is not a (regular file|dataset|file)|Too many levels of symbolic links", text)


@pytest.mark.parametrize("name", [each for each in READ_WHOLE if each not in READ_IN_PART])
def test_files_of_a_terabyte_are_refused_before_they_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 2**40)
    signal.signal(signal.SIGALRM, lambda *signal: pytest.fail("it is read"))
    signal.alarm(60)
    text = refusal(READ_WHOLE[name], tmp_path / name)
    signal.alarm(0)
    assert "bytes, above the limit of" in text
