"""NumPy archives: valid ones are read, others rejected with a one-line message."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from isopix.data.sources.base import Source
from isopix.data.sources.npz import read_npz
from tests.unit.data.refusal import refusal


def _npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def _source(tmp_path: Path, **arrays: Any) -> Source:
    return read_npz(_npz(tmp_path / "set.npz", **arrays))


IMAGES = np.arange(4 * 6 * 5 * 3, dtype=np.uint8).reshape(4, 6, 5, 3)
LABELS = np.array([0, 1, 1, 0])


def test_npz_arrays_are_read_with_labels_and_class_names(tmp_path: Path) -> None:
    source = _source(
        tmp_path,
        x_train=IMAGES,
        y_train=LABELS,
        x_test=IMAGES[:2],
        y_test=LABELS[:2, None],
        class_names=["cat", "dog"],
    )
    assert {name: split.num_images for name, split in source.splits.items()} == {"train": 4, "test": 2}
    assert source.classes == ("cat", "dog")
    assert np.array_equal(np.stack(list(source.splits["train"].images())), IMAGES)  # type: ignore[arg-type]


def test_npz_needs_neither_labels_nor_test_images(tmp_path: Path) -> None:
    source = _source(tmp_path, x_train=IMAGES[..., :1])
    assert (list(source.splits), source.classes) == (["train"], ())


def test_missing_labels_of_a_hub_test_set_are_none(tmp_path: Path) -> None:
    source = _source(tmp_path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES, y_test=np.full(4, -1))
    assert source.splits["test"].labels is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_test": IMAGES}, "dataset file {path} has no array x_train; its arrays: x_test"),
        ({"x_train": IMAGES / 255}, "x_train of {path} is float64; allowed: uint8, uint16"),
        (
            {"x_train": IMAGES.transpose(0, 3, 1, 2)},
            "x_train of {path} has shape [4, 3, 6, 5]; allowed: [n H W], and [n H W 3|4] of uint8",
        ),
        ({"x_train": IMAGES, "y_train": LABELS[:3]}, "{path} x_train has 4 images but 3 labels"),
        (
            {"x_train": IMAGES, "y_train": LABELS / 1.0},
            "y_train of {path} is float64 [4]; allowed: integers [n]",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS - 1},
            "y_train of {path} has no label for 2 of 4 images; label all of them or none",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS - 2},
            "y_train of {path} has label -2; allowed: 0 or more, and -1 for no label",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS.astype(np.uint64) + np.uint64(2**63)},
            "y_train of {path} has labels above 9223372036854775807; allowed: integers of 64 bits",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS == 1},
            "y_train of {path} is bool [4]; allowed: integers [n]",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS, "class_names": ["cat"]},
            "label 1 has no class name; there are 1 class names",
        ),
        (
            {"x_train": np.array([{}], dtype=object)},
            "dataset file {path} cannot be read: it is not a .npy or .npz file of numbers",
        ),
        ({"x_train": IMAGES, "y_train": 1}, "y_train of {path} is int64 []; allowed: integers [n]"),
        ({"x_train": 1}, "x_train of {path} is int64; allowed: uint8, uint16"),
        (
            {"x_train": IMAGES, "y_train": np.array(["a", "b", "c", "d"])},
            "y_train of {path} is <U1 [4]; allowed: integers [n]",
        ),
        (
            {"x_train": IMAGES, "y_train": LABELS, "class_names": 5},
            "label 1 has no class name; there are 1 class names",
        ),
    ],
)
def test_bad_npz_content_is_rejected_in_one_line(
    tmp_path: Path, arrays: Mapping[str, Any], message: str
) -> None:
    path = _npz(tmp_path / "set.npz", **arrays)
    assert refusal(read_npz, path) == message.format(path=path)


def test_a_truncated_npz_is_rejected(tmp_path: Path) -> None:
    path = _npz(tmp_path / "set.npz", x_train=IMAGES)
    path.write_bytes(path.read_bytes()[:100])
    assert refusal(read_npz, path).startswith(f"dataset file {path} cannot be read: ")


def test_a_small_file_of_one_color_is_read_at_any_ratio(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez_compressed(path, x_train=np.zeros((10, 1000, 1000), dtype=np.uint8))
    assert read_npz(path).splits["train"].num_images == 10


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "images", [IMAGES, IMAGES[..., 0], IMAGES[..., :1], IMAGES[..., 0].astype(np.uint16) * 257]
)
def test_images_read_one_by_one_are_those_of_numpy(
    tmp_path: Path, save: Callable[..., None], order: Literal["C", "F"], images: NDArray[Any]
) -> None:
    save(tmp_path / "set.npz", x_train=np.array(images, order=order))
    split = read_npz(tmp_path / "set.npz").splits["train"]
    for _ in range(2):
        rows: list[Any] = list(split.images())
        assert np.array_equal(
            np.stack(rows), np.load(tmp_path / "set.npz")["x_train"].reshape(np.shape(rows))
        )


def test_damage_inside_the_images_names_the_file(tmp_path: Path) -> None:
    path = _npz(tmp_path / "set.npz", x_train=np.zeros((100, 9, 9), np.uint8))
    data = bytearray(path.read_bytes())
    data[4000] ^= 1
    path.write_bytes(data)
    split = read_npz(path).splits["train"]
    message = refusal(lambda: list(split.images()))
    assert message == f"dataset file {path} cannot be read: Bad CRC-32 for file 'x_train.npy'"
