"""A survey of a source: what was planted in it is found."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isopix.data import survey
from isopix.data.decode import image_header
from isopix.data.survey import spread_ranges, survey_source


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


def test_what_was_planted_is_found(folder: Path, tmp_path: Path) -> None:
    found = survey_source(str(folder), cache=tmp_path / "cache")
    train, test = found.splits["train"], found.splits["test"]
    assert (train.num_images, train.num_examined, train.num_unreadable) == (15, 15, 1)
    assert train.class_counts == {"cats": 6, "dogs": 9}
    assert test.class_counts == {"cats": 5, "dogs": 3}
    assert [Path(each.path).name for each in found.bad_files] == ["broken.png"]
    assert found.sizes[20, 50] == 1  # upright
    assert sum(found.sizes.values()) == sum(found.formats.values()) == 22
    assert found.formats == {("PNG", "RGB"): 20, ("JPEG", "RGB"): 2}

    def names(members: tuple[int, ...]) -> set[tuple[str, str]]:
        return {(found.image(i).split, Path(found.image(i).name).name) for i in members}

    groups = {each.kind: [] for each in found.duplicates}
    for each in found.duplicates:
        groups[each.kind].append(names(each.members))
    assert {("train", "0.png"), ("test", "copy.png")} in groups["exact"]
    assert {("train", "1.png"), ("train", "another.png")} in groups["exact"]
    assert groups["near"] == [{("train", "2.png"), ("test", "smaller.jpg")}]
    assert {name: len(pictures) for name, pictures in found.pictures.items()} == {"cats": 6, "dogs": 8}


def test_a_part_of_a_large_split_is_examined(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "NUM_RANGES", 3)
    found = survey_source(str(folder), limit=5, cache=tmp_path / "cache")
    assert found.splits["train"].num_images == 15
    assert found.splits["train"].num_examined == 3
    assert found.positions["train"].tolist() == [0, 5, 10]
    names = [found.image(i).name for i in range(sum(map(len, found.positions.values())))]
    headers = [image_header(Path(name).read_bytes()) for name in names]
    assert found.sizes == Counter((each.width, each.height) for each in headers)


@pytest.mark.parametrize(
    ("count", "limit"), [(7, 9), (9, 9), (10, 9), (1001, 1000), (10**6, 12345), (500, 3)]
)
def test_ranges_do_not_overlap(count: int, limit: int) -> None:
    positions = [i for start, stop in spread_ranges(count, limit) for i in range(start, stop)]
    assert positions == sorted(set(positions))
    assert positions[-1] < count
    assert min(count, limit) - survey.NUM_RANGES < len(positions) <= min(count, limit)


def test_digits_have_no_files_and_no_test_split(tmp_path: Path) -> None:
    found = survey_source("digits", limit=100, cache=tmp_path)
    assert found.sizes == {(8, 8): 100}
    assert found.formats == {("array", "L"): 100}
    assert list(found.splits) == ["train"]
    assert found.pictures["3"][0].size == (96, 96)
