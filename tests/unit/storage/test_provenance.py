"""A run folder records the commit, working directory and command that produced it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from isopix.storage import provenance
from isopix.storage.provenance import git_commit


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one commit."""
    (tmp_path / "file").write_text("first")
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (["init", "-q"], ["add", "file"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_has_a_commit_and_is_dirty_when_changed(checkout: Path) -> None:
    words = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()
    assert git_commit(checkout) == head
    (checkout / "file").write_text("second")
    assert git_commit(checkout) == f"{head}-dirty"
    (checkout / "site-packages").mkdir()  # of another project's checkout
    assert git_commit(checkout / "site-packages") is None


def test_without_git_or_in_a_broken_checkout_there_is_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert git_commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    assert "commit" not in provenance.environment({})
