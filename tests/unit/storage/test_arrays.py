"""Untrusted arrays: whatever a file contains, it is read or rejected with a one-line message."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from isopix.storage.arrays import NpyWriter, open_memmap, read_arrays

VALUES = np.arange(4000, dtype=np.uint8).reshape(10, 400)


def test_both_kinds_of_file_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", VALUES)
    np.savez_compressed(tmp_path / "two.npz", a=VALUES, b=VALUES[:1])
    assert np.array_equal(read_arrays(tmp_path / "one.npy")[""], VALUES)
    assert {name: len(array) for name, array in read_arrays(tmp_path / "two.npz").items()} == {
        "a": 10,
        "b": 1,
    }


def test_members_that_are_not_arrays_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, a=VALUES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "hello")
    assert list(read_arrays(path)) == ["a"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_give_arrays_or_a_one_line_error(tmp_path: Path, save) -> None:
    path, draw = tmp_path / "some.npz", np.random.default_rng(0)
    save(path, colors=VALUES, words=np.array(["a", "b"]))
    whole, reasons = path.read_bytes(), []
    for _ in range(150):
        damaged = np.frombuffer(whole, np.uint8).copy()
        places = draw.integers(0, len(whole), 4)
        damaged[places] ^= draw.integers(1, 256, 4, dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            read_arrays(path)
        except ValueError as error:
            reasons.append(str(error))
    assert len(reasons) > 50
    assert [reason for reason in reasons if not reason or "\n" in reason] == []


def test_numpys_advice_to_unpickle_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "text.npy"
    path.write_text("hello, hello, hello")
    with pytest.raises(ValueError, match=r"^it is not a \.npy or \.npz file of numbers$"):
        read_arrays(path)


def test_headers_that_numpy_warns_about_are_rejected(tmp_path: Path) -> None:
    """A header written by Python 2."""
    path = tmp_path / "old.npy"
    np.save(path, VALUES)
    path.write_bytes(path.read_bytes().replace(b"(10, 400)", b"(10L,400)"))
    with pytest.raises(ValueError, match="Python 2"):
        read_arrays(path)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16])
@pytest.mark.parametrize("rows", [0, 3])
def test_a_file_written_in_parts_is_what_numpy_saves(tmp_path: Path, rows: int, dtype: type) -> None:
    values = np.arange(rows * 8).reshape(rows, 2, 4).astype(dtype)
    with NpyWriter((tmp_path / "parts.npy").open("wb"), (2, 4), dtype) as file:
        for part in np.array_split(values, 2):
            file.append(part)
    assert np.array_equal(np.load(tmp_path / "parts.npy"), values)
    assert np.array_equal(open_memmap(tmp_path / "parts.npy").numpy(), values)
    assert open_memmap(tmp_path / "parts.npy").numpy().dtype == dtype
