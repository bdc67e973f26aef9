"""Folders, and images given as arrays: layouts, labels, and files that are refused in one line."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal
from tests.unit.data.test_sources import labels_of, read, train

IMAGES = np.arange(4 * 6 * 5 * 3, dtype=np.uint8).reshape(4, 6, 5, 3)
LABELS = np.array([0, 1, 1, 0])
CODES = np.zeros((2, 64), int)
PALETTE = np.linspace(-1, 1, 12).reshape(4, 3)


# Folders


def test_sub_folders_are_classes_and_their_first_files_come_first(tmp_path: Path, draw: Draw) -> None:
    for name in ("dog/2.png", "dog/1.JPG", "cat/3.png", "cat/deep/1.png", "cat/9.png", "cat/.hidden.png"):
        draw(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").touch()
    (tmp_path / "cat" / "loop").symlink_to(tmp_path)
    names = [
        each.relative_to(tmp_path).as_posix() for each in train(tmp_path).images() if isinstance(each, Path)
    ]
    assert names == ["cat/3.png", "dog/1.JPG", "cat/9.png", "dog/2.png", "cat/deep/1.png"]
    assert labels_of(train(tmp_path)) == [0, 1, 0, 1, 0]
    assert read(tmp_path).classes == ("cat", "dog")


def test_a_flat_folder_and_one_image_have_no_labels(tmp_path: Path, draw: Draw) -> None:
    paths = [draw(tmp_path / f"{name}.PNG") for name in "cab"]
    assert list(train(tmp_path).images()) == sorted(paths)
    assert list(train(paths[0]).images()) == paths[:1]
    assert read(tmp_path).classes == read(paths[0]).classes == ()


@pytest.mark.parametrize("word", ["val", "valid", "validation"])
def test_split_folders_are_known_by_their_names(tmp_path: Path, classes: Path, word: str) -> None:
    for split in ("train", word, "test"):
        shutil.copytree(classes, tmp_path / "set" / split)
    splits = read(tmp_path / "set").splits
    assert {name: split.num_images for name, split in splits.items()} == dict.fromkeys(
        ("train", "validation", "test"), 40
    )


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "has no images; allowed suffixes: .jpg .jpeg .png .webp .bmp .gif .tif .tiff"),
        (["test/a.png"], "has test/ but no train/"),
        (["train/a.png", "val/a.png", "valid/a.png"], "has both valid/ and val/; keep one"),
        (["cat/a.png", "stray.png"], "has images next to its sub-folders (stray.png) and inside them (cat/)"),
        (["train/a.png", "cat/a.png"], "has train/ and cat/, so it may be a split or a class"),
        (["train/cat/a.png", "test/cow/a.png"], "class 'cow' of {root}/test is not a class of {root}/train"),
    ],
)
def test_folders_that_are_not_clear_are_refused(
    tmp_path: Path, draw: Draw, files: list[str], message: str
) -> None:
    for name in files:
        draw(tmp_path / name)
    assert message.format(root=tmp_path) in refusal(read, tmp_path)


# NumPy


@pytest.mark.parametrize(
    "images",
    [IMAGES[..., 0], IMAGES[..., :1], IMAGES[..., 0].astype(np.uint16) * 257, IMAGES[..., [0, 1, 2, 0]]],
)
def test_arrays_of_every_shape_are_read_as_numpy_reads_them(tmp_path: Path, images: np.ndarray) -> None:
    np.savez(
        tmp_path / "set.npz", x_train=images, y_train=LABELS[:, None], x_test=images, y_test=np.full(4, -1)
    )
    rows = [np.asarray(each) for each in train(tmp_path / "set.npz").images()]
    assert np.array_equal(np.stack(rows), images.reshape(np.shape(rows)))
    assert labels_of(train(tmp_path / "set.npz")) == LABELS.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_test": IMAGES}, "has no array x_train; its arrays: x_test"),
        ({"x_train": IMAGES / 255}, "is float64 [4, 6, 5, 3]; allowed: [n H W] of uint8 or uint16"),
        ({"x_train": IMAGES.transpose(0, 3, 1, 2)}, "is uint8 [4, 3, 6, 5]; allowed"),
        ({"x_train": np.array([{}], dtype=object)}, "is object [1]; allowed"),
        ({"x_train": 1}, "is int64 []; allowed"),
        (
            {"x_train": np.zeros((1, 5000, 5000), np.uint8)},
            "25,000,000 pixels, above the limit of 16,000,000",
        ),
        ({"x_train": IMAGES, "y_train": LABELS[:3]}, "y_train is int64 [3]; allowed: integers [4]"),
        ({"x_train": IMAGES, "y_train": LABELS / 1.0}, "y_train is float64 [4]"),
        ({"x_train": IMAGES, "y_train": LABELS - 1}, "has no label for 2 of 4 images"),
        ({"x_train": IMAGES, "y_train": LABELS, "class_names": ["cat"]}, "label 1 has no class name"),
    ],
)
def test_arrays_that_are_no_images_are_refused(
    tmp_path: Path, arrays: Mapping[str, Any], message: str
) -> None:
    np.savez(tmp_path / "set.npz", **arrays)
    assert message in refusal(read, tmp_path / "set.npz")


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, x_train=np.zeros((100, 9, 9), np.uint8))
    data = bytearray(path.read_bytes())
    data[4000] ^= 1
    path.write_bytes(data)
    split = train(path)
    assert refusal(lambda: list(split.images())) == (
        f"{path} x_train cannot be read: Bad CRC-32 for file 'x_train.npy'"
    )
    path.write_bytes(data[:100])
    assert refusal(read, path).startswith(f"dataset file {path} cannot be read: ")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("kmeans_centers.npy", PALETTE * 2, "colors outside the range"),
        ("kmeans_centers.npy", PALETTE[:, :2], "no array of colors [K 3]"),
        ("b_trX.npy", CODES, "codes of 2 datasets"),
        ("a_trX.npy", CODES[:, :16], "images of 4 x 4 pixels; data.rows 8"),
        ("a_trX.npy", CODES[:, :63], "integers [n H*W]"),
        ("a_trX.npy", CODES * 1.0, "integers [n H*W]"),
        ("a_trX.npy", CODES + 4, "codes from 4 to 4; the palette has 4"),
        ("a_trX.npy", CODES - 1, "codes from -1"),
        ("a_trY.npy", LABELS, "is int64 [4]; allowed: classes [2] or one-hot [2 C]"),
        ("a_trY.npy", np.ones((2, 3)), "or one-hot"),
        ("a_trY.npy", np.full(2, 0.5), "or one-hot"),
        ("a_trY.npy", np.array([{}, {}], dtype=object), "cannot be read"),
    ],
)
def test_codes_that_are_no_images_are_refused(
    tmp_path: Path, name: str, values: np.ndarray, message: str
) -> None:
    np.save(tmp_path / "kmeans_centers.npy", PALETTE)
    np.save(tmp_path / "a_trX.npy", CODES)
    assert train(tmp_path).num_images == train(tmp_path / "a_trX.npy").num_images == 2
    np.save(tmp_path / name, values)
    assert message in refusal(read, tmp_path)


def test_codes_without_a_palette_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a_trX.npy", CODES)
    assert "has no kmeans_centers.npy or palette.npz" in refusal(read, tmp_path)
    np.savez(tmp_path / "palette.npz", colors=np.full((1, 3), 255.0))
    assert np.asarray(next(train(tmp_path).images())).min() == 255
