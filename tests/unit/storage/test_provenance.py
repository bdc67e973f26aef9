"""A run folder records the commit, working directory and command that produced it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from isopix.storage import provenance
from isopix.storage.provenance import git_commit


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_has_a_commit_and_is_dirty_when_changed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("first")
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (
        ["init", "-q"],
        ["add", "file"],
        [*identity, "commit", "-qm", "first"],
        ["rev-parse", "HEAD"],
    ):
        done = subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, text=True)
    head = done.stdout.strip()
    assert git_commit(tmp_path) == head
    (tmp_path / "file").write_text("second")
    assert git_commit(tmp_path) == f"{head}-dirty"
    (tmp_path / "site-packages").mkdir()  # of another project's checkout
    assert git_commit(tmp_path / "site-packages") is None


def test_without_git_or_in_a_broken_checkout_there_is_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert git_commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    assert "commit" not in provenance.environment({})
