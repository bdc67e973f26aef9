"""Pipes, devices and files of a terabyte are refused before they are read, wherever a file is read."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isopix.core.registry import load_plugin
from isopix.data.decode import read_mask
from isopix.data.sources.labels import read_metadata
from isopix.interop import openai
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import read_json
from isopix.storage.log import read_log
from isopix.storage.result import Result
from tests.reliability.test_untrusted import READERS, load
from tests.unit.data.refusal import refusal

READ_WHOLE = READERS | {
    **dict.fromkeys(
        ("set/a.tar", "set/a.parquet", "set/a.arrow", "set/a.png"), lambda path: load(path.parent)
    ),
    "metadata.csv": lambda path: read_metadata(path.parent, [path.name], "label", None, "none"),
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
