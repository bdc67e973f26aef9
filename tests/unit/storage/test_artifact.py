"""A sealed folder is whole or not there; a growing file is what NumPy would have saved."""

from pathlib import Path

import numpy as np
import pytest

from isopix.storage import artifact


def write(folder: Path) -> dict[str, int]:
    (folder / "content").write_bytes(b"abc")
    return {"answer": 42}


def test_a_folder_is_put_in_one_piece_with_its_facts(tmp_path: Path) -> None:
    artifact.write_artifact(tmp_path / "a" / "key", write)
    facts = artifact.read_manifest(tmp_path / "a" / "key")
    assert facts is not None
    assert facts["answer"] == 42
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["key"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> dict[str, int]:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        artifact.write_artifact(tmp_path / "key", fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["content", artifact.MANIFEST_FILE])
def test_a_changed_or_missing_file_breaks_the_seal(tmp_path: Path, name: str) -> None:
    assert artifact.read_manifest(tmp_path / "key") is None
    for damage in (lambda path: path.write_bytes(b"abd"), Path.unlink):
        artifact.write_artifact(tmp_path / "key", write)
        damage(tmp_path / "key" / name)
        assert artifact.read_manifest(tmp_path / "key") is None


@pytest.mark.parametrize("dtype", [np.uint8, np.float16])
@pytest.mark.parametrize("rows", [0, 3])
def test_a_growing_file_is_what_numpy_saves(tmp_path: Path, rows: int, dtype: type) -> None:
    values = np.arange(rows * 8).reshape(rows, 2, 4).astype(dtype)
    with artifact.NpyWriter(tmp_path / "grown.npy", (2, 4), dtype) as file:
        for part in np.array_split(values, 2):
            file.append(part)
    assert np.array_equal(np.load(tmp_path / "grown.npy"), values)
    assert np.array_equal(artifact.open_memmap(tmp_path / "grown.npy").numpy(), values)
    assert artifact.open_memmap(tmp_path / "grown.npy").numpy().dtype == dtype
