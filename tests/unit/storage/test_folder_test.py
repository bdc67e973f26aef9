"""A test of a folder finds what is wrong with it, and leaves nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isopix.storage import cache
from isopix.storage.cache import folder_problem, free_bytes, size_of


def test_a_good_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    assert folder_problem(folder) == ""
    assert list(folder.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert folder_problem(tmp_path / "file" / "cache") == "Not a directory"


def test_locks_that_do_nothing_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def nothing(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(cache, "exclusive_lock", nothing)
    assert folder_problem(tmp_path).startswith("file locks do not exclude")


def test_a_file_that_is_not_replaced_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "replace_file", lambda path, data: path.write_bytes(b"old"))
    assert folder_problem(tmp_path) == "a file that was replaced has its old content"


def test_sizes(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a").write_bytes(bytes(100))
    (tmp_path / "b").write_bytes(bytes(11))
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert size_of(tmp_path) == 111
    assert size_of(tmp_path / "none") == 0
    assert free_bytes(tmp_path / "none" / "at" / "all") > 0
