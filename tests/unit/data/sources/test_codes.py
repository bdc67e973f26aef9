"""OpenAI's files of palette codes: the images give the same codes back, and the splits are as given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isopix.codecs import palette_file
from isopix.codecs.palette import Palette
from isopix.core.types import Grid
from isopix.data.dataset import DataConfig, load_dataset
from isopix.data.sources.codes import read_codes
from isopix.data.sources.digits import Canvas
from tests.unit.data.refusal import refusal

SIDE, COLORS, CLASSES = 6, 27, 3
COUNTS = {"tr": 20, "va": 5, "te": 7}
CANVAS = Canvas(SIDE, SIDE, 1)


def colors() -> np.ndarray:
    """As in kmeans_centers.npy: float32 in [-1, 1], here a lattice with fractions of a level."""
    axis = np.array([0.3, 128.4, 254.6])
    lattice = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    return (lattice[np.random.default_rng(0).permutation(COLORS)] / 127.5 - 1).astype(np.float32)


def codes(part: str) -> np.ndarray:
    return np.random.default_rng(COUNTS[part]).integers(0, COLORS, (COUNTS[part], SIDE * SIDE))


def labels(part: str) -> np.ndarray:
    return np.arange(COUNTS[part]) % CLASSES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "kmeans_centers.npy", colors())
    for part in COUNTS:
        np.save(tmp_path / f"cifar10_{part}X.npy", codes(part))
        np.save(tmp_path / f"cifar10_{part}Y.npy", np.eye(CLASSES, dtype=np.float32)[labels(part)])
    return tmp_path


def test_the_codes_and_splits_are_those_of_the_files(folder: Path) -> None:
    config = DataConfig(source=str(folder), rows=SIDE, cols=SIDE)
    data = load_dataset(config, cache=folder / "cache")
    palette = Palette(torch.from_numpy((colors().astype(float) + 1) * 127.5).float(), Grid(SIDE, SIDE))
    for part, split in (("tr", data.train), ("va", data.validation), ("te", data.test)):
        assert torch.equal(palette.encode(split.images)[..., 0], torch.from_numpy(codes(part)))
        assert split.labels is not None
        assert split.labels.tolist() == labels(part).tolist()
    assert (data.name, data.classes) == ("cifar10", ("0", "1", "2"))


def test_a_palette_of_isopix_class_indices_and_two_dimensional_codes(folder: Path) -> None:
    reference = [
        np.stack(list(read_codes(folder, CANVAS).splits[name].images())) for name in ("train", "test")
    ]
    levels = torch.from_numpy((colors().astype(float) + 1) * 127.5).float()
    (folder / "kmeans_centers.npy").unlink()
    palette_file.write_palette(folder / "palette.npz", palette_file.PaletteFile(levels, "a test"))
    np.save(folder / "cifar10_trX.npy", codes("tr").reshape(-1, SIDE, SIDE).astype(np.uint16))
    np.save(folder / "cifar10_trY.npy", labels("tr")[:, None])
    (folder / "cifar10_teY.npy").unlink()
    source = read_codes(folder / "cifar10_trX.npy", CANVAS)
    for name, images in zip(("train", "test"), reference, strict=True):
        assert np.array_equal(np.stack(list(source.splits[name].images())), images)
    assert source.splits["train"].labels is not None
    assert source.splits["train"].labels.tolist() == labels("tr").tolist()
    assert source.splits["test"].labels is None


def with_file(name: str, values: Any) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / name, values)


WRONG = {
    "no palette": (lambda folder: (folder / "kmeans_centers.npy").unlink(), "no kmeans_centers.npy"),
    "two datasets": (with_file("imagenet_trX.npy", codes("tr")), "codes of 2 datasets"),
    "another size": (
        with_file("cifar10_trX.npy", np.zeros((2, 16), int)),
        "images of 4 x 4 pixels; data.rows 6",
    ),
    "no square": (with_file("cifar10_trX.npy", np.zeros((2, 35), int)), "integers [n H*W]"),
    "floats": (with_file("cifar10_trX.npy", np.zeros((2, 36))), "integers [n H*W]"),
    "no color": (
        with_file("cifar10_teX.npy", codes("te") + COLORS),
        "codes from 27 to 53; the palette has 27",
    ),
    "negative": (with_file("cifar10_teX.npy", codes("te") - 1), "codes from -1"),
    "few labels": (with_file("cifar10_teY.npy", labels("te")[1:]), "6 labels for 7 images"),
    "two classes at once": (with_file("cifar10_teY.npy", np.ones((7, 3))), "not one-hot"),
    "fractions": (with_file("cifar10_teY.npy", np.full(7, 0.5)), "allowed: classes [n]"),
    "range of the palette": (with_file("kmeans_centers.npy", colors() * 2), "outside the range"),
    "damaged": (lambda folder: (folder / "cifar10_teX.npy").write_bytes(b"x"), "cannot be read"),
    "pickle": (with_file("cifar10_teX.npy", np.array([object()])), "cannot be read"),
}


@pytest.mark.parametrize(("spoil", "message"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_said_in_one_line(folder: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(folder)
    assert message in refusal(read_codes, folder, CANVAS)


def test_another_npy_file_is_no_dataset(folder: Path) -> None:
    assert "give the one named *_trX.npy" in refusal(read_codes, folder / "kmeans_centers.npy", CANVAS)
