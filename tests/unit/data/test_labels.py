"""Which values are labels, where they are found in tables, tar files and metadata, and what is not read."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isopix.data.dataset import DataConfig
from isopix.data.measurement import measurement_of, missing_class_notes
from isopix.data.sources.base import Source, find_reader
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded, table_of, write_tar
from tests.unit.data.test_dataset import load

Fields = Mapping[str, list[Any]]  # the values of each column

IMAGES = [encoded(i) for i in range(4)]
IDS, TWICE, PETS = [10, 11, 12, 13], [3, 1, 3, 1], ["dog", "cat", "dog", "cow"]


def _parquet(path: Path, fields: Fields, features: Mapping[str, object] | None = None) -> Path:
    whole = table_of(IMAGES, [0] * 4).drop_columns("label")
    for name, values in fields.items():
        whole = whole.append_column(name, pa.array(values))
    metadata = {"huggingface": json.dumps({"info": {"features": features or {}}})}
    pq.write_table(whole.replace_schema_metadata(metadata), path / "set.parquet")
    return path / "set.parquet"


def _tar(path: Path, fields: Fields, name: str = "set") -> Path:
    rows = [json.dumps({key: values[i] for key, values in fields.items()}).encode() for i in range(4)]
    members = [each for i in range(4) for each in ((f"{i}.png", IMAGES[i]), (f"{i}.json", rows[i]))]
    return write_tar(path / f"{name}.tar", members)


def _folder(path: Path, fields: Fields) -> Path:
    for i, image in enumerate(IMAGES):
        (path / f"{i}.png").write_bytes(image)
    lines = [["file_name", *fields], *zip([f"{i}.png" for i in range(4)], *fields.values(), strict=True)]
    text = "\n".join(",".join("" if each is None else str(each) for each in line) for line in lines)
    (path / "metadata.csv").write_text(text)
    return path


WRITERS: dict[str, Callable[[Path, Fields], Path]] = {"Parquet": _parquet, "tar": _tar, "CSV": _folder}


def read(path: Path, label: str | None = None, image: str | None = None) -> Source:
    return find_reader(DataConfig(source=str(path), label_column=label, image_column=image))()


# The column that is named, labels, classes, and what is said of a table.
CASES: list[tuple[Fields, str | None, list[int] | None, tuple[str, ...], str]] = [
    ({"label": TWICE, "caption": PETS}, None, TWICE, ("0", "1", "2", "3"), ""),
    ({"class": PETS, "image_id": IDS}, None, [2, 0, 2, 1], ("cat", "cow", "dog"), ""),
    ({"label": [2.0, 0.0, 1.0, 0.0]}, None, [2, 0, 1, 0], ("0", "1", "2"), ""),
    ({"label": [True, False, True, True]}, None, [1, 0, 1, 1], ("False", "True"), ""),
    ({"label": PETS, "kind": TWICE}, "kind", TWICE, ("0", "1", "2", "3"), ""),
    ({"image_id": IDS, "pet": PETS}, None, None, (), "that may hold labels: image_id, pet;"),
    ({"label": [1, None, 0, 0]}, None, [1, -1, 0, 0], ("0", "1"), "1 of 4 train images of dataset 'set'"),
    ({"label": ["b", None, "a", "a"]}, None, [1, -1, 0, 0], ("a", "b"), "'set' have no label"),
    ({"label": [1.5, 2.0, 1.0, 1.0]}, None, [-1, 2, 1, 1], ("0", "1", "2"), "'set' have no label"),
    ({"cls": [[1], [2], [1], [2]], "pet": PETS}, None, None, (), "that may hold labels: pet;"),
]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(("fields", "wanted", "labels", "classes", "note"), CASES)
def test_every_format_reads_the_same_values_as_labels(
    tmp_path: Path, kind: str, fields: Fields, wanted: str, labels: object, classes: object, note: str
) -> None:
    """Of metadata.csv, which may not be of labels, a column but `label` is read if it is named."""
    named = next(iter(fields)) if kind == "CSV" and labels else None
    source = read(WRITERS[kind](tmp_path, fields), wanted or named)
    found = source.splits["train"].labels
    assert (None if found is None else found.tolist(), source.classes) == (labels, classes)
    if kind != "CSV":
        assert bool(source.notes) == bool(note)
        assert note in "".join(source.notes)


def test_of_class_labels_one_with_a_known_name_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    kinds = {name: {"_type": "ClassLabel", "names": ["hen", "ape"]} for name in ("coarse", "fine_label")}
    columns = {name: [1, 0, 1, 0] for name in kinds}
    source = read(_parquet(tmp_path, {"label": TWICE, **columns}, kinds))
    assert (source.splits["train"].labels.tolist(), source.classes) == ([1, 0, 1, 0], ("hen", "ape"))
    assert "of column 'fine_label'; columns that may hold labels: coarse;" in source.notes[0]
    (tmp_path / "set.parquet").rename(tmp_path / "first.parquet")
    kinds["fine_label"]["names"] = ["ape", "hen"]
    _parquet(tmp_path, columns, kinds)
    assert "set.parquet has other columns or classes than" in refusal(read, tmp_path)


def test_a_class_is_the_same_in_all_splits_and_shards(tmp_path: Path) -> None:
    for name, labels in (("train-0", PETS), ("train-1", ["ant", 7, "cat", "cat"]), ("test-0", TWICE)):
        _tar(tmp_path, {"label": labels}, name)
    source = read(tmp_path)
    assert source.classes == ("1", "3", "7", "ant", "cat", "cow", "dog")
    assert source.splits["train"].labels.tolist() == [6, 4, 6, 5, 3, 2, 4, 4]
    assert source.splits["test"].labels.tolist() == [1, 0, 1, 0]


def test_labels_of_metadata_are_those_of_its_files_in_all_folders(tmp_path: Path, draw: Draw) -> None:
    for name in ("train/cat/0.png", "train/dog/1.png", "test/cat/2.png"):
        draw(tmp_path / name)
    (tmp_path / "metadata.csv").write_text('file_name,label,text\ntest/cat/2.png,b,"two\nlines"\n')
    (tmp_path / "train" / "metadata.csv").write_text("file_name,label\ncat/0.png,b\ndog/1.png,a\n")
    found = read(tmp_path)
    assert found.classes == read(tmp_path, "label").classes == ("a", "b")
    assert [each.labels.tolist() for each in found.splits.values()] == [[1, 0], [1]]
    (tmp_path / "metadata.csv").write_text("file_name,label\ntest/cat/2.png,c\n")
    assert read(tmp_path).content_hash != found.content_hash
    (tmp_path / "metadata.csv").write_text("file_name,pet\ntest/cat/2.png,c\n")
    plain = read(tmp_path)
    assert plain.classes == ("cat", "dog")
    assert plain.notes[0] == "metadata.csv may hold labels; data.label_column=NAME chooses its column"


def test_a_file_of_labels_stands_instead_of_folders_and_lists_images_from_the_folder_on(
    tmp_path: Path, draw: Draw
) -> None:
    for name in ("cat/0.png", "dog/1.png", "2.png"):
        draw(tmp_path / "set" / name)
    lines = ["file,label", f"{tmp_path}/set/cat/0.png,b", "dog/1.png,a", "2.png,"]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    config = DataConfig(source=str(tmp_path / "set"), labels_file=str(tmp_path / "labels.csv"))
    found = find_reader(config)()
    names = [Path(found.splits["train"].image_name(i)).name for i in range(3)]
    assert dict(zip(names, found.splits["train"].labels.tolist(), strict=True)) == {
        "0.png": 1,
        "1.png": 0,
        "2.png": -1,
    }
    (tmp_path / "labels.csv").write_text("\n".join(lines[:3]))
    assert find_reader(config)().content_hash != found.content_hash
    assert "no column 'pet'" in refusal(find_reader(replace(config, label_column="pet")))
    other = replace(config, source="digits")
    assert refusal(find_reader, other).startswith("'digits' is not a folder of images")


def test_what_globs_match_is_left_out(tmp_path: Path, draw: Draw) -> None:
    for name in ("cat/0.png", "cat/0_mask.png", "dog/1.png", "drafts/2.png", "drafts/more/3.png"):
        draw(tmp_path / "set" / name)
    globs = ("*_mask.png", "drafts/*")
    found = find_reader(DataConfig(source=str(tmp_path / "set"), exclude=globs))()
    assert (found.classes, found.splits["train"].num_images, found.notes) == (("cat", "dog"), 2, ())


def test_images_without_a_label_are_pre_trained_on_and_left_out_where_labels_are_needed(
    tmp_path: Path, draw: Draw
) -> None:
    names = [f"{folder}{i}.png" for i in range(20) for folder in ("", "cat/", "dog/")]
    for i, name in enumerate(names):
        draw(tmp_path / name, i)
    images = load(tmp_path, holdout=0.2)
    parts = (images.train, images.validation, images.test)
    assert sum(map(len, parts)) == 60
    assert images.classes == ("cat", "dog")
    assert "20 of 60 train images of dataset" in images.notes[0]
    labeled = images.labeled("probe")
    for before, after in zip(parts, (labeled.train, labeled.validation, labeled.test), strict=True):
        assert 0 < len(after) < len(before)
        assert after.labels.tolist() == [each for each in before.labels.tolist() if each >= 0]
        assert after.available == len(before)
        assert images.labels_of(before).count(None) == len(before) - len(after)
    assert measurement_of(images, "test").classes == {"train": 2, "validation": 2, "test": 2}
    assert missing_class_notes(images) == ()
    assert len(load(tmp_path, holdout=0.2, labels_per_class=2).train) == 4


REFUSED: list[tuple[str, str | None, str | None, str]] = [
    ("Parquet", "breed", None, "has no column 'breed' of labels; columns: label, pet"),
    ("Parquet", "img", None, "has no column 'img' of labels; columns: label, pet"),
    ("Parquet", None, "mask", "has no image column 'mask' of {bytes, path}"),
    ("tar", "breed", None, "column 'breed' of 'set' has no label of a training image"),
    ("CSV", "pet", "name", "no column 'name'; columns: file_name, label, pet"),
    ("CSV", "pet", "label", "metadata.csv has no path of an image; its first is '1'"),
    ("CSV", None, "label", "metadata.csv has no path of an image; its first is '1'"),
    ("npz", "label", None, "'set' has no columns that data.label_column or data.image_column names"),
]


@pytest.mark.parametrize(("kind", "label", "image", "message"), REFUSED)
def test_a_column_that_is_not_there_is_refused(
    tmp_path: Path, kind: str, label: str | None, image: str | None, message: str
) -> None:
    np.savez(tmp_path / "set.npz", x_train=np.zeros((2, 4, 4), np.uint8), y_train=[0, 1])
    path = WRITERS[kind](tmp_path, {"label": TWICE, "pet": PETS}) if kind in WRITERS else tmp_path / "set.npz"
    assert message in refusal(lambda: load(path, label_column=label, image_column=image))


@pytest.mark.parametrize("kind", ["Parquet", "CSV", "tar"])
def test_splits_of_rows_and_inside_of_tar_files_are_refused_or_one(tmp_path: Path, kind: str) -> None:
    folders = [(f"a-{name}/{i}.png", IMAGES[i]) for i, name in enumerate(["train", "test"] * 2)]
    rows = {"pet": PETS, "split": ["train", "TEST"] * 2}
    path = write_tar(tmp_path / "a.tar", folders) if kind == "tar" else WRITERS[kind](tmp_path, rows)
    column = "pet" if kind == "CSV" else None
    assert "has the splits test and train; allowed: data.splits=none" in refusal(read, path, column)
    source = find_reader(DataConfig(source=str(path), splits="none", label_column=column))()
    assert source.splits["train"].num_images == 4
    assert kind != "tar" or "folders in tar files, as a-train, are none; unpack them" in source.notes[0]


def test_a_column_belongs_to_the_fingerprint_and_that_of_images_is_read(tmp_path: Path) -> None:
    path = _parquet(tmp_path, {"label": TWICE, "pet": PETS})
    changes = [{}, {"label_column": "label"}, {"label_column": "pet"}, {"image_column": "img"}]
    assert len({load(path, holdout=0.0, **each).fingerprint for each in changes}) == 4
    images = table_of(IMAGES, TWICE).append_column("mask", table_of(IMAGES[::-1], TWICE)["img"])
    pq.write_table(images, path)
    write_tar(tmp_path / "set.tar", [("a.jpg", IMAGES[0]), ("a.png", IMAGES[1])])
    for name, column, expected in (("parquet", "mask", IMAGES[::-1]), ("tar", "png", IMAGES[1:2])):
        assert [*read(tmp_path / f"set.{name}", None, column).splits["train"].images()] == expected


def test_what_needs_labels_names_the_columns_that_may_hold_them(tmp_path: Path) -> None:
    images = load(_parquet(tmp_path, {"image_id": IDS}), holdout=0.0)
    missing = f"dataset 'set' has none in train: {images.notes[0]}"
    assert refusal(images.labeled, "probe") == f"probe needs labels; {missing}"
    few = {"label_column": "pet", "labels_per_class": 5, "holdout": 0.0}
    message = "5 images per class requested; a class has only 1 in train"
    assert refusal(lambda: load(_parquet(tmp_path, {"pet": PETS}), **few)) == message


@pytest.mark.parametrize("encode", [np.asarray, np.char.encode])
def test_text_in_arrays_is_the_name_of_a_class(tmp_path: Path, encode: Callable[[Any], Any]) -> None:
    names = encode(np.array(["käse", "brot", "käse"]))
    np.savez(tmp_path / "set.npz", x_train=np.zeros((3, 4, 4), np.uint8), y_train=names)
    found = read(tmp_path / "set.npz")
    assert (found.classes, np.array(found.splits["train"].labels).tolist()) == (("brot", "käse"), [1, 0, 1])
