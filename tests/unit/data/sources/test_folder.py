"""Folders of images in every layout."""

import shutil
from pathlib import Path

import pytest

from isopix.data.sources.base import RawImage, Source
from isopix.data.sources.digits import Canvas
from isopix.data.sources.folder import read_folder, read_image
from isopix.data.sources.read_source import find_reader
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal


def _files(source: Source, split: str = "train") -> list[RawImage]:
    return list(source.splits[split].images())  # type: ignore[index]


def test_a_flat_folder_has_no_labels_and_keeps_its_order(tmp_path: Path, draw: Draw) -> None:
    paths = [draw(tmp_path / f"{name}.png") for name in "cab"]
    source = read_folder(tmp_path)
    assert _files(source) == sorted(paths)
    assert (source.splits["train"].labels, source.classes) == (None, ())


def test_sub_folders_are_classes_and_their_first_files_come_first(tmp_path: Path, draw: Draw) -> None:
    for name in ("dog/2.png", "dog/1.JPG", "cat/3.png", "cat/deep/1.png", "cat/9.png"):
        draw(tmp_path / name)
    source = read_folder(tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in _files(source) if isinstance(path, Path)]
    assert names == ["cat/3.png", "dog/1.JPG", "cat/9.png", "dog/2.png", "cat/deep/1.png"]
    assert source.splits["train"].labels is not None
    assert source.splits["train"].labels.tolist() == [0, 1, 0, 1, 0]
    assert source.classes == ("cat", "dog")


@pytest.mark.parametrize("word", ["val", "valid", "validation"])
def test_split_folders_are_known_by_their_names(tmp_path: Path, classes: Path, word: str) -> None:
    for split in ("train", word, "test"):
        shutil.copytree(classes, tmp_path / "set" / split)
    source = read_folder(tmp_path / "set")
    assert sorted(source.splits) == ["test", "train", "validation"]
    assert all(split.num_images == 40 and split.labels is not None for split in source.splits.values())


def test_one_image_is_a_source_of_its_own(classes: Path, tmp_path: Path, draw: Draw) -> None:
    path = draw(tmp_path / "one.PNG")
    source = read_image(path)
    assert (source.name, _files(source), source.classes) == ("one.PNG", [path], ())
    assert find_reader(str(path), Canvas(8, 8, 1))().content_hash == source.content_hash
    before = source.content_hash
    path.write_bytes(path.read_bytes() + b"0")
    assert read_image(path).content_hash != before


def test_other_files_and_hidden_ones_are_passed_over(classes: Path, draw: Draw) -> None:
    (classes / "README.md").write_text("pets")
    (classes / "cat" / "notes.txt").write_text("cats")
    draw(classes / ".thumbnails" / "1.png")
    draw(classes / "cat" / ".hidden.png")
    assert read_folder(classes).splits["train"].num_images == 40


def test_a_link_to_a_parent_is_not_followed_for_ever(classes: Path) -> None:
    (classes / "cat" / "loop").symlink_to(classes)
    (classes / "dog" / "self").symlink_to(classes / "dog")
    assert read_folder(classes).splits["train"].num_images == 40


def test_the_digest_changes_with_content_and_names_but_not_with_time(classes: Path, draw: Draw) -> None:
    first = read_folder(classes).content_hash
    (classes / "cat" / "00.png").touch()
    assert read_folder(classes).content_hash == first
    draw(classes / "cat" / "00.png", seed=999)
    second = read_folder(classes).content_hash
    (classes / "cat" / "00.png").rename(classes / "cat" / "99.png")
    assert len({first, second, read_folder(classes).content_hash}) == 3


def test_an_empty_folder_is_rejected(tmp_path: Path) -> None:
    allowed = ".jpg .jpeg .png .webp .bmp .gif .tif .tiff"
    assert refusal(read_folder, tmp_path) == f"folder {tmp_path} has no images; allowed suffixes: {allowed}"


def test_an_empty_test_folder_is_rejected(tmp_path: Path, classes: Path) -> None:
    classes.rename(tmp_path / "train")
    (tmp_path / "test").mkdir()
    assert refusal(read_folder, tmp_path).startswith(f"folder {tmp_path}/test has no images;")


def test_a_test_folder_without_training_images_is_rejected(tmp_path: Path, classes: Path) -> None:
    classes.rename(tmp_path / "test")
    assert refusal(read_folder, tmp_path) == f"folder {tmp_path} has test/ but no train/"


def test_two_validation_folders_are_rejected(tmp_path: Path) -> None:
    for name in ("train", "val", "valid"):
        (tmp_path / name).mkdir()
    assert refusal(read_folder, tmp_path) == f"folder {tmp_path} has both valid/ and val/; keep one"


def test_images_beside_classes_are_rejected(classes: Path, draw: Draw) -> None:
    draw(classes / "stray.png")
    assert refusal(read_folder, classes) == (
        f"folder {classes} has images next to its sub-folders (stray.png) and inside them (cat/); "
        "put all in sub-folders, one per class, or all in one folder"
    )


def test_a_class_called_train_is_not_taken_for_a_split(classes: Path, draw: Draw) -> None:
    draw(classes / "train" / "1.png")
    assert refusal(read_folder, classes) == (
        f"folder {classes} has train/ and cat/, so it may be a split or a class; "
        "put all classes into one train/ folder, or keep only train/, val/ and test/"
    )


def test_a_class_that_only_the_test_images_have_is_rejected(
    tmp_path: Path, classes: Path, draw: Draw
) -> None:
    classes.rename(tmp_path / "train")
    draw(tmp_path / "test" / "cow" / "1.png")
    assert (
        refusal(read_folder, tmp_path) == f"class 'cow' of {tmp_path}/test is not a class of {tmp_path}/train"
    )
