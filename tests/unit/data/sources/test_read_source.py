"""Sources are opened by name or by path."""

from pathlib import Path

import numpy as np

from isopix.data.sources.base import Source
from isopix.data.sources.digits import Canvas
from isopix.data.sources.read_source import find_reader
from tests.unit.data.refusal import refusal

ALTERNATIVES = (
    "give a folder of images, an image, an .npz file, OpenAI's .npy files, Parquet, tar or Arrow files, "
    "or one of: digits, translated-digits, cifar10, cifar100, stl10, imagenet-1k, tiny-imagenet"
)


def open_source(source: str) -> Source:
    return find_reader(source, Canvas(10, 9, 2))()


def test_an_unknown_name_lists_the_known_ones() -> None:
    missing = "no file or folder 'cifar11' exists, and no dataset has that name"
    assert refusal(open_source, "cifar11") == f"{missing}; did you mean 'cifar10'? {ALTERNATIVES}"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    missing = f"no file or folder '{tmp_path}/pets' exists, and no dataset has that name"
    assert refusal(open_source, f"{tmp_path}/pets") == f"{missing}; {ALTERNATIVES}"


def test_a_file_of_another_kind_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "pets.zip").touch()
    assert (
        refusal(open_source, f"{tmp_path}/pets.zip")
        == f"{tmp_path}/pets.zip is not a dataset; {ALTERNATIVES}"
    )


def test_a_run_folder_is_not_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").touch()
    expected = f"folder {tmp_path} is a run folder; as a dataset give {ALTERNATIVES.removeprefix('give ')}"
    assert refusal(open_source, str(tmp_path)) == expected.split(", or one of", maxsplit=1)[0]


def test_a_path_is_read_by_what_is_there(tmp_path: Path, classes: Path) -> None:
    assert open_source(str(classes)).name == "pets"
    np.savez(tmp_path / "arrays.npz", x_train=np.zeros((4, 6, 5), dtype=np.uint8))
    assert open_source(str(tmp_path / "arrays.npz")).name == "arrays"


def test_translated_digits_have_the_size_and_placements_that_are_asked_for() -> None:
    train = open_source("translated-digits").splits["train"]
    assert train.num_images == 2 * 1197
    assert np.asarray(next(train.images())).shape == (10, 9)
