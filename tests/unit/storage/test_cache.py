"""An artifact is complete or does not exist, and damage is detected."""

from pathlib import Path

import pytest

from isopix.storage import provenance
from isopix.storage.atomic import MANIFEST
from isopix.storage.cache import read_manifest, write_artifact


def write(folder: Path) -> dict[str, int]:
    (folder / "content").write_bytes(b"abc")
    return {"answer": 42}


def test_an_artifact_is_written_with_its_manifest_or_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, int]:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_artifact(tmp_path / "key", fail)
    assert list(tmp_path.iterdir()) == []
    write_artifact(tmp_path / "key", write)
    manifest = read_manifest(tmp_path / "key")
    assert manifest is not None
    assert manifest["answer"] == 42
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("tick", [-(10**12), provenance.TICK])
@pytest.mark.parametrize("name", ["content", MANIFEST])
def test_a_changed_or_missing_file_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, tick: int
) -> None:
    """Also if hashes are remembered at once."""
    monkeypatch.setattr(provenance, "TICK", tick)
    assert read_manifest(tmp_path / "key") is None
    for damage in (lambda path: path.write_bytes(b"abd"), Path.unlink):
        write_artifact(tmp_path / "key", write)
        assert read_manifest(tmp_path / "key")
        damage(tmp_path / "key" / name)
        assert [read_manifest(tmp_path / "key") for _ in range(2)] == [None, None]
