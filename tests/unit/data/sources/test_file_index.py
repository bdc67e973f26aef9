"""The index of files: which files are read again, and the hash that it gives."""

import os
import time
from pathlib import Path

import pytest

from isopix.data.sources import file_index
from isopix.data.sources.file_index import hash_table
from isopix.data.sources.file_table import FileTable
from isopix.data.sources.folder import read_folder
from isopix.storage.hashing import hash_tree

OLD = time.time_ns() - 10**12
NAMES = ["a.png", "b/c.png", "b/\udce9.png", "d\n.png"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read, sorted; files have not changed lately."""
    found: list[str] = []
    hash_file = file_index.hash_file

    def counted(path: str) -> bytes | str:
        found.append(Path(path).name)
        return hash_file(path)

    monkeypatch.setattr(file_index, "hash_file", counted)
    monkeypatch.setattr(file_index, "TICK", -(10**13))  # all times are old
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of files."""
    for name in NAMES:
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))
    return tmp_path / "set"


def _hash(root: Path, names: list[str] = NAMES) -> str:
    return hash_table(FileTable(root, names), index=root.parent / "index")


def _tree(root: Path, names: list[str] = NAMES) -> str:
    return hash_tree({name: root / name for name in names})


def test_files_are_read_once_and_have_the_hash_of_the_tree(root: Path, read: list[str]) -> None:
    expected = _tree(root)
    assert _hash(root) == expected == hash_table(FileTable(root, NAMES))
    read.clear()
    assert _hash(root) == expected
    assert read == []


def test_the_order_of_the_hash_is_the_one_that_is_given(root: Path) -> None:
    expected = _tree(root, [NAMES[i] for i in (2, 0, 3, 1)])
    assert hash_table(FileTable(root, NAMES), [2, 0, 3, 1], root.parent / "index") == expected


@pytest.mark.parametrize("restored", [False, True])
def test_a_changed_byte_is_found(root: Path, read: list[str], restored: bool) -> None:
    before, status = _hash(root), (root / "a.png").stat()
    read.clear()
    (root / "a.png").write_bytes(b"A.png")
    if restored:  # the time of the change of status is then another one still
        os.utime(root / "a.png", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert _hash(root) == _tree(root) != before
    assert read == ["a.png"]


def test_a_touched_file_is_read_again_and_has_its_hash(root: Path, read: list[str]) -> None:
    before = _hash(root)
    (root / "a.png").touch()
    read.clear()
    assert (_hash(root), read) == (before, ["a.png"])


def test_only_files_that_were_added_are_read(root: Path, read: list[str]) -> None:
    _hash(root)
    read.clear()
    (root / "0.png").touch()
    names = ["0.png", *NAMES[1:]]
    assert (_hash(root, names), read) == (_tree(root, names), ["0.png"])


def test_a_file_that_changed_just_before_is_read_again(
    root: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "TICK", 2 * 10**9)
    _hash(root)
    status = (root / "a.png").stat()
    (root / "a.png").write_bytes(b"A.png")
    stamps = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    stamp = file_index._stamp
    monkeypatch.setattr(file_index, "_stamp", lambda path: stamps if path.endswith("a.png") else stamp(path))
    assert _hash(root) == _tree(root)


def test_what_is_no_file_is_looked_at_every_time(root: Path, read: list[str]) -> None:
    (root / "a.png").unlink()
    (root / "a.png").symlink_to("nowhere")
    assert _hash(root) == _tree(root)
    (root / "nowhere").write_bytes(b"here")
    assert _hash(root) == _tree(root)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", None])
def test_a_damaged_index_is_built_anew(root: Path, read: list[str], content: bytes | None) -> None:
    before = _hash(root)
    (file,) = (root.parent / "index").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data if content is None else content)
    read.clear()
    assert _hash(root) == before
    assert len(read) == len(NAMES)
    read.clear()
    assert (_hash(root), read) == (before, [])


def test_an_index_that_cannot_be_written_is_done_without(root: Path) -> None:
    (root.parent / "index").touch()
    assert _hash(root) == _tree(root)


def test_a_folder_has_the_same_hash_with_an_index(tmp_path: Path, classes: Path) -> None:
    without = read_folder(classes)
    for _ in range(2):
        assert read_folder(classes, tmp_path / "index").content_hash == without.content_hash
    files = [str(path.relative_to(classes)) for path in without.splits["train"].images()]  # type: ignore[arg-type]
    assert without.content_hash == _tree(classes, files)


def test_a_file_that_could_not_be_read_is_read_again(
    root: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as denied:
        denied.setattr(file_index, "hash_file", lambda path: "unreadable: Permission denied")
        first = _hash(root)
    assert first != _hash(root) == _tree(root)


def test_two_files_of_a_folder_do_not_share_an_index(root: Path, read: list[str]) -> None:
    for name in NAMES[:2] * 2:
        assert _hash(root, [name]) == _tree(root, [name])
    assert read == ["a.png", "c.png"]
