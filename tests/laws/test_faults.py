"""Law of faults: where a write fails, a command says so in one line, and leaves nothing half-written."""

import errno
import hashlib
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.storage.arrays import read_tensors
from isopix.storage.checkpoint import load_checkpoint
from tests.laws import test_results
from tests.laws.test_results import CALLS
from tests.smoke.conftest import Run, isopix, quick_figures, quick_probes

__all__ = ["isopix", "quick_figures", "quick_probes"]

WRITING = ["complete", "data", "evaluate", "export", "finetune", "neighbors", "palette", "pretrain"]
WRITING += ["probe", "probe ar", "reconstruct", "report", "sample"]
made = test_results.folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def full(patch: pytest.MonkeyPatch, after: int = 0) -> None:
    """A disk without space after so many files, as they say when they are flushed."""
    files = count()

    def fail(descriptor: int) -> None:
        if next(files) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(os, "fsync", fail)


def limited(patch: pytest.MonkeyPatch, size: int) -> None:
    """Files of at most so many bytes; Python would not notice that of a module a part is written."""
    patch.setattr(sys, "dont_write_bytecode", True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


NAMED = 20  # files and folders of a training until its run has a name
FAULTS = [full, partial(full, after=NAMED), *(partial(limited, size=size) for size in (500, 9_000))]
pytestmark = pytest.mark.integration


def readable(path: Path) -> bool:
    """Return whether a file is whole."""
    match path.suffix:
        case ".json":
            json.loads(path.read_text())
        case ".png":
            Image.open(path).load()
        case ".html":
            return path.read_text().rstrip().endswith("</html>")
        case ".safetensors":
            read_tensors(path)
        case ".npy" | ".npz":
            np.load(path)
        case ".csv":
            return path.read_text().endswith("\n")
    return True


def hashes(folder: Path) -> dict[Path, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.usefixtures("folder", "quick_probes", "quick_figures", "unchecked")
@pytest.mark.parametrize("word", WRITING)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_that_fails_is_one_line_and_leaves_nothing_half_written(
    fault: Callable[[pytest.MonkeyPatch], None], word: str, isopix: Run
) -> None:
    before, limits = hashes(Path()), resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        code, _, err = isopix(*f"{word} {CALLS[word]}".split())
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    if fault is full or code:
        line = err.splitlines()[-1]
        assert (code, line.startswith("isopix: ")) == (1, True), err
        assert "cannot be written: " in line
    after = hashes(Path())
    assert {path: after[path] for path in before} == before
    new = after.keys() - before.keys()
    assert all(map(readable, new))
    assert [path for path in new if ".tmp-" in str(path)] == []
    for each in Path().rglob("checkpoints/step-*"):
        load_checkpoint(each)
