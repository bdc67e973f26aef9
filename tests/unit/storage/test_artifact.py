"""An artifact is complete or does not exist, and damage is detected."""

from pathlib import Path

import pytest

from isopix.storage import artifact


def write(folder: Path) -> dict[str, int]:
    (folder / "content").write_bytes(b"abc")
    return {"answer": 42}


def test_an_artifact_is_written_atomically_with_its_manifest(tmp_path: Path) -> None:
    artifact.write_artifact(tmp_path / "a" / "key", write)
    manifest = artifact.read_manifest(tmp_path / "a" / "key")
    assert manifest is not None
    assert manifest["answer"] == 42
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["key"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, int]:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        artifact.write_artifact(tmp_path / "key", fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["content", artifact.MANIFEST_FILE])
def test_a_changed_or_missing_file_is_detected(tmp_path: Path, name: str) -> None:
    assert artifact.read_manifest(tmp_path / "key") is None
    for damage in (lambda path: path.write_bytes(b"abd"), Path.unlink):
        artifact.write_artifact(tmp_path / "key", write)
        damage(tmp_path / "key" / name)
        assert artifact.read_manifest(tmp_path / "key") is None
