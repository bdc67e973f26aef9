"""Pipes, devices and files of a terabyte are refused before they are read, wherever a file is read."""

import os
import re
import threading
from pathlib import Path

import pytest

from isopix.core.registry import load_plugin
from isopix.data.dataset import DataConfig
from isopix.data.decode import read_mask
from isopix.data.sources.labels import read_labels
from isopix.interop import openai
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import read_json
from isopix.storage.log import read_log
from isopix.storage.result import Result
from tests.reliability.test_untrusted import READERS, load
from tests.unit.data.refusal import refusal

IN_FOLDERS = ("set/a.tar", "set/a.parquet", "set/a.arrow", "set/a.png")
READ_WHOLE = READERS | {
    **dict.fromkeys(IN_FOLDERS, lambda path: load(path.parent)),
    "metadata.csv": lambda path: read_labels(path.parent, [path.name], DataConfig()),
    "mask.png": read_mask,
    "log.jsonl": read_log,
    "recipe.json": read_json,
    "sample.json": Result.read,
    "data-sample.npz": read_arrays,
    "model.index": lambda path: openai.open_checkpoint(path.with_suffix("")),
    "plugin.py": load_plugin,
}
READ_IN_PART = {"set.npz", "set.parquet", "set.tar", *IN_FOLDERS[:3]}


def feed(pipe: Path) -> None:
    """Let whoever opens the pipe find its end, so that nobody waits."""
    while pipe.is_fifo():
        os.close(os.open(pipe, os.O_WRONLY))


@pytest.mark.parametrize("name", READ_WHOLE)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    (path := tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/null")
    threading.Thread(target=feed, args=[path], daemon=True).start()
    text = refusal(READ_WHOLE[name], path, kind=(ValueError, OSError))
    assert re.search("is not a (regular file|dataset|file)|Too many levels of symbolic links", text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", [each for each in READ_WHOLE if each not in READ_IN_PART])
def test_files_of_a_terabyte_are_refused_before_they_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 2**40)
    assert "bytes, above the limit of" in refusal(READ_WHOLE[name], tmp_path / name)
