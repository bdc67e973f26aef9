"""The names of images, as their source has them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.data.dataset import DataConfig, load_dataset
from isopix.data.image_names import image_names, shared_folder, short_name
from isopix.data.splits import Split


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """240 images of one gray level each, the level being the name, and one file that is none."""
    for level in range(240):
        name = tmp_path / "photos" / ("dark" if level < 120 else "light") / f"{level:03d}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), level, np.uint8)).save(name)
    (tmp_path / "photos" / "dark" / "005.png").write_bytes(b"not an image")
    return tmp_path / "photos"


def levels(split: Split) -> list[int]:
    return split.images[:][:, 0, 0, 0].tolist()


def stems(config: DataConfig, split: Split) -> list[int]:
    return [int(Path(name).stem) for name in image_names(config, split)]


def test_names_are_those_of_the_images_of_every_split(folder: Path) -> None:
    config = DataConfig(source=str(folder), rows=4, cols=4, limit=50)
    data = load_dataset(config)
    for split in (data.train, data.validation, data.test):
        assert len(split)
        assert stems(config, split) == levels(split)
    both = data.validation.concat(data.test)
    assert stems(config, both) == levels(both)
    assert Path(image_names(config, both)[0]).is_file()


def test_images_without_a_number_have_no_name(folder: Path) -> None:
    config = DataConfig(source=str(folder), rows=4, cols=4, holdout=0.0)
    data = load_dataset(config)
    assert image_names(config, replace(data.test, rows=None)) == [""] * len(data.test)


def test_a_dataset_that_has_become_smaller_is_refused(folder: Path) -> None:
    config = DataConfig(source=str(folder), rows=4, cols=4, holdout=0.0)
    data = load_dataset(config)
    (folder / "light" / "200.png").unlink()
    with pytest.raises(ValueError, match=r"photos' has changed: it has fewer images than it had"):
        image_names(config, data.train)


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["/photos/a/1.png", "/photos/a/2.png"], "/photos/a"),
        (["photos/a/1.png", "photos/ab/2.png"], "photos"),
        (["/photos/1.png"], "/photos"),
        (["/a/1.png", "/b/1.png"], ""),
        (["digits row 1", "digits row 2"], ""),
        (["/a/1.png", ""], ""),
        ([], ""),
    ],
)
def test_names_are_shortened_by_the_folder_of_all(names: list[str], folder: str) -> None:
    assert shared_folder(names) == folder
    assert [str(Path(folder, short_name(each, folder))) if each else "" for each in names] == names
