"""A run folder records the commit, working directory and command that produced it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from isopix.storage import provenance
from isopix.storage.provenance import git_commit

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one commit."""
    (tmp_path / "file").write_text("first")
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (["init", "-q"], ["add", "file"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def head(checkout: Path) -> str:
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()


@needs_git
def test_a_checkout_has_a_commit(checkout: Path) -> None:
    assert git_commit(checkout) == head(checkout)


@needs_git
def test_a_changed_checkout_is_dirty(checkout: Path) -> None:
    (checkout / "file").write_text("second")
    assert git_commit(checkout) == f"{head(checkout)}-dirty"


@needs_git
def test_a_package_inside_another_checkout_has_no_commit(checkout: Path) -> None:
    (checkout / "site-packages").mkdir()
    assert git_commit(checkout / "site-packages") is None


def test_a_checkout_without_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None


def test_a_broken_checkout_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert git_commit(tmp_path) is None


def test_the_command_is_recorded_with_its_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["isopix", "pretrain", "igpt.tiny"])
    found = provenance.environment({})
    assert found["folder"] == str(tmp_path)
    assert found["command"] == ["isopix", "pretrain", "igpt.tiny"]


def test_an_installed_package_records_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "CHECKOUT", tmp_path)
    assert "commit" not in provenance.environment({})
