"""Other people's arrays: whatever a file holds, it is read or refused in one line."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from isopix.storage.npy import read_arrays

VALUES = np.arange(4000, dtype=np.uint8).reshape(10, 400)


def test_both_kinds_of_file_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", VALUES)
    np.savez_compressed(tmp_path / "two.npz", a=VALUES, b=VALUES[:1])
    assert np.array_equal(read_arrays(tmp_path / "one.npy")[""], VALUES)
    assert {name: len(array) for name, array in read_arrays(tmp_path / "two.npz").items()} == {
        "a": 10,
        "b": 1,
    }


def test_members_that_are_no_arrays_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, a=VALUES)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "hello")
    assert list(read_arrays(path)) == ["a"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_flipped_bytes_end_in_arrays_or_in_one_line(tmp_path: Path, save) -> None:
    path, draw = tmp_path / "some.npz", np.random.default_rng(0)
    save(path, colours=VALUES, words=np.array(["a", "b"]))
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


def test_numpys_advice_to_unpickle_is_not_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "text.npy"
    path.write_text("hello, hello, hello")
    with pytest.raises(ValueError, match=r"^it is no \.npy or \.npz file of plain numbers$"):
        read_arrays(path)


def test_what_numpy_half_understands_is_refused(tmp_path: Path) -> None:
    """A header as Python 2 wrote it."""
    path = tmp_path / "old.npy"
    np.save(path, VALUES)
    path.write_bytes(path.read_bytes().replace(b"(10, 400)", b"(10L,400)"))
    with pytest.raises(ValueError, match="Python 2"):
        read_arrays(path)
