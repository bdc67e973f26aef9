"""Law of faults: where a write fails, a command says so in one line, and leaves nothing half-written."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.laws import test_results
from tests.laws.test_results import CALLS
from tests.reliability.test_full_disk import hashes, readable
from tests.smoke.conftest import Run, isopix, quick_figures, quick_probes
from tests.tiny_runs import unchecked

__all__ = ["isopix", "quick_figures", "quick_probes", "unchecked"]

WRITING = ["complete", "convert to-huggingface", "data show", "evaluate", "finetune", "low-data", "neighbors"]
WRITING += ["palette fit", "palette import", "pretrain", "probe", "reconstruct", "report", "sample", "verify"]
made = test_results.folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.mark.usefixtures("folder", "quick_probes", "quick_figures", "unchecked")
@pytest.mark.parametrize("word", WRITING)
def test_a_write_that_fails_is_one_line_and_leaves_nothing_half_written(
    word: str, isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hashes(Path())

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    code, _, err = isopix(*f"{word} {CALLS[word]}".split())
    line = err.splitlines()[-1]
    assert (code, line.startswith("isopix: ")) == (1, True), err
    assert "cannot be written: no space left on device" in line
    after = hashes(Path())
    assert {path: after[path] for path in before} == before
    new = after.keys() - before.keys()
    assert all(map(readable, new))
    assert [path for path in new if ".tmp-" in str(path)] == []
