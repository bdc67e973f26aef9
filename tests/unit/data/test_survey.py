"""A survey of a source: what was planted in it is found."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.data import survey
from isopix.data.dataset import DataConfig
from isopix.data.decode import image_header
from isopix.data.survey import survey_source
from isopix.verbs.data import data_show
from tests.golden.values import check_golden, contents


def smooth(seed: int, width: int, height: int) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of six training and three test images, with one of each fault."""
    root = tmp_path / "photos"
    for split, count in (("train", 6), ("test", 3)):
        for label, name in enumerate(("cats", "dogs")):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                seed = 1000 * (split == "test") + 100 * label + i
                smooth(seed, 40 + i, 30).save(root / split / name / f"{i}.png")
    cats, dogs = root / "train" / "cats", root / "train" / "dogs"
    shutil.copy(cats / "0.png", root / "test" / "cats" / "copy.png")
    shutil.copy(cats / "1.png", dogs / "another.png")
    smooth(2, 42, 30).resize((90, 60)).save(root / "test" / "cats" / "smaller.jpg", quality=80)
    (dogs / "broken.png").write_bytes(b"no picture")
    sideways = Image.Exif()
    sideways[0x0112] = 6
    smooth(7, 50, 20).save(dogs / "sideways.jpg", exif=sideways)
    return root


def test_what_was_planted_is_found(folder: Path) -> None:
    found = survey_source(DataConfig(source=str(folder)))
    train, test = found.splits["train"], found.splits["test"]
    assert (train.images, train.examined, train.unreadable) == (15, 15, 1)
    assert train.classes == {"cats": 6, "dogs": 9}
    assert test.classes == {"cats": 5, "dogs": 3}
    assert [Path(each.path).name for each in found.unreadable] == ["broken.png"]
    assert found.survey.sizes[20, 50] == 1  # upright
    assert sum(found.survey.sizes.values()) == 22
    assert found.sizes.width == (20, 42, 90)
    assert found.formats == {"PNG RGB": 20, "JPEG RGB": 2}
    groups = found.duplicates.first_groups
    assert [{(each.split, Path(each.name).name) for each in group} for group in groups] == [
        {("train", "0.png"), ("test", "copy.png")},
        {("train", "1.png"), ("train", "another.png")},
    ]
    assert found.duplicates.in_earlier_split == {"test": 1}
    assert found.duplicates.groups_with_different_labels == 1
    assert {name: len(each) for name, each in found.survey.pictures.items()} == {"cats": 6, "dogs": 8}


def test_a_part_of_a_large_split_is_examined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "NUM_RANGES", 3)
    found = survey_source(DataConfig(source=str(folder)), limit=5)
    assert (found.splits["train"].images, found.splits["train"].examined) == (15, 3)
    images = [image for image, _ in found.survey.images]
    names = [found.survey.source.splits["train"].image_name(i) for i in (0, 5, 10)]
    assert [each.name for each in images if each.split == "train"] == names
    assert found.survey.sizes == Counter(image_header(Path(each.name).read_bytes())[:2] for each in images)


def test_pictures_lists_and_the_record_are_written(folder: Path, tmp_path: Path) -> None:
    found = data_show(folder, out=tmp_path / "out")
    check_golden("results", "data photos", [found.record(), contents(found.path)])


def test_unlabeled_images_are_counted_and_shown(folder: Path) -> None:
    for i in range(3):
        smooth(50 + i, 40, 30).save(folder / "train" / f"{i}.png")
    found = survey_source(DataConfig(source=str(folder)))
    assert {name: len(each) for name, each in found.survey.pictures.items()}[""] == 3
    assert ("unlabeled", "3", "0") in found.tables()[0].rows
