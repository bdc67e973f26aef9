"""Which values are labels, where they are found in tables, tar files and metadata, and what is not read."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isopix.data.sources.base import ReadOptions, Source, find_reader
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded, table_of, write_arrow, write_tar
from tests.unit.data.test_dataset import load

Fields = Mapping[str, list[Any]]  # the values of each column
Write = Callable[[Path, Fields], Path]

IMAGES = [encoded(i) for i in range(4)]
IDS, TWICE = [10, 11, 12, 13], [3, 1, 3, 1]
PETS = ["dog", "cat", "dog", "cow"]
PET_INDICES = [2, 0, 2, 1]


def _columns(fields: Fields, features: Mapping[str, object] | None = None) -> pa.Table:
    whole = table_of(IMAGES, [0] * 4).drop_columns("label")
    for name, values in fields.items():
        whole = whole.append_column(name, pa.array(values))
    return whole.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features or {}}})})


def _parquet(path: Path, fields: Fields) -> Path:
    pq.write_table(_columns(fields), path / "set.parquet")
    return path / "set.parquet"


def _arrow(path: Path, fields: Fields) -> Path:
    return write_arrow(path / "set.arrow", _columns(fields), rows_per_batch=3)


def _samples(fields: Fields) -> list[tuple[str, bytes]]:
    rows = [json.dumps({name: values[i] for name, values in fields.items()}).encode() for i in range(4)]
    return [each for i in range(4) for each in ((f"{i}.png", IMAGES[i]), (f"{i}.json", rows[i]))]


def _tar(path: Path, fields: Fields) -> Path:
    return write_tar(path / "set.tar", _samples(fields))


def _folder(path: Path, fields: Fields) -> Path:
    for i, image in enumerate(IMAGES):
        (path / f"{i}.png").write_bytes(image)
    rows = [[f"{i}.png" for i in range(4)], *fields.values()]
    lines = [["file_name", *fields], *zip(*rows, strict=True)]
    text = "\n".join(",".join("" if each is None else str(each) for each in line) for line in lines)
    (path / "metadata.csv").write_text(text)
    return path


WRITERS = {"Parquet": _parquet, "Arrow": _arrow, "tar": _tar, "CSV": _folder}


def read(path: Path, label: str | None = None, image: str | None = None) -> Source:
    return find_reader(str(path), ReadOptions(label_column=label, image_column=image))()


def found(source: Source) -> tuple[list[int] | None, tuple[str, ...]]:
    labels = source.splits["train"].labels
    return None if labels is None else labels.tolist(), source.classes


EVERYWHERE: list[tuple[Fields, str | None, list[int] | None, tuple[str, ...]]] = [
    ({"label": TWICE}, None, TWICE, ("0", "1", "2", "3")),
    ({"label": PETS, "image_id": IDS}, None, PET_INDICES, ("cat", "cow", "dog")),
    ({"label": [2.0, 0.0, 1.0, 0.0]}, None, [2, 0, 1, 0], ("0", "1", "2")),
    ({"label": [True, False, True, True]}, None, [1, 0, 1, 1], ("False", "True")),
    ({"image_id": IDS}, None, None, ()),
    ({"label": [1, None, 0, 0]}, None, None, ()),
    ({"label": PETS, "kind": TWICE}, "kind", TWICE, ("0", "1", "2", "3")),
]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(("fields", "wanted", "labels", "classes"), EVERYWHERE)
def test_every_format_reads_the_same_values_as_labels(
    tmp_path: Path, kind: str, fields: Fields, wanted: str | None, labels: list[int] | None, classes: tuple
) -> None:
    """Of metadata.csv, which may not be of labels, a column is read if it is named."""
    path = WRITERS[kind](tmp_path, fields)
    named = "label" if kind == "CSV" and "label" in fields else None
    assert found(read(path, wanted or named)) == (labels, classes)


TABLES: list[tuple[Fields, str | None, str]] = [  # the column of labels, and what is said of others
    ({"label": TWICE, "caption": PETS}, "label", ""),
    ({"class": TWICE, "image_id": IDS}, "class", ""),
    ({"species": TWICE, "age": [1, 2, 1, 2], "pet": PETS}, None, "may hold labels: species, age, pet; data."),
    ({"label": [1.5, 2.0, 1.0, 1.0]}, None, "1 of 4 train images of dataset 'set' have no label"),
    ({"label": [[1], [2], [1], [2]], "pet": PETS}, None, "may hold labels: pet;"),
]


@pytest.mark.parametrize(("fields", "column", "note"), TABLES)
def test_a_table_says_which_columns_may_hold_labels(
    tmp_path: Path, fields: Fields, column: str | None, note: str
) -> None:
    source = read(_parquet(tmp_path, fields))
    assert found(source)[0] == (fields[column] if column else None)
    assert note in "".join(source.notes)
    assert bool(source.notes) == bool(note)


def test_of_class_labels_one_with_a_known_name_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    kinds = {name: {"_type": "ClassLabel", "names": ["hen", "ape"]} for name in ("coarse", "fine_label")}
    columns = {name: [1, 0, 1, 0] for name in kinds}
    pq.write_table(_columns({"label": TWICE, **columns}, kinds), tmp_path / "set.parquet")
    source = read(tmp_path / "set.parquet")
    assert found(source) == ([1, 0, 1, 0], ("hen", "ape"))
    assert "of column 'fine_label'; columns that may hold labels: coarse;" in source.notes[0]
    kinds["fine_label"]["names"] = ["ape", "hen"]
    pq.write_table(_columns({"fine_label": [1, 0, 1, 0]}, kinds), tmp_path / "set-2.parquet")
    assert "set.parquet has other columns or classes than" in refusal(read, tmp_path)


def test_a_class_is_the_same_in_all_splits_and_shards(tmp_path: Path) -> None:
    for name, labels in (("train-0", PETS), ("train-1", ["ant", 7, "cat", "cat"]), ("test-0", TWICE)):
        write_tar(tmp_path / f"{name}.tar", _samples({"label": labels}))
    source = read(tmp_path)
    assert source.classes == ("1", "3", "7", "ant", "cat", "cow", "dog")
    assert source.splits["train"].labels.tolist() == [6, 4, 6, 5, 3, 2, 4, 4]
    assert source.splits["test"].labels.tolist() == [1, 0, 1, 0]


def test_labels_of_metadata_are_those_of_its_files_in_all_folders(tmp_path: Path, draw: Draw) -> None:
    for name in ("train/cat/0.png", "train/dog/1.png", "test/cat/2.png"):
        draw(tmp_path / name)
    (tmp_path / "metadata.csv").write_text('file_name,label,text\ntest/cat/2.png,b,"two\nlines"\n')
    (tmp_path / "train" / "metadata.csv").write_text("file_name,label\ncat/0.png,b\ndog/1.png,a\n")
    plain, named = read(tmp_path), read(tmp_path, "label")
    assert (plain.classes, named.classes) == (("cat", "dog"), ("a", "b"))
    assert plain.notes[0] == "metadata.csv may hold labels; data.label_column=NAME reads a column of it"
    assert [each.labels.tolist() for each in named.splits.values()] == [[1, 0], [1]]
    (tmp_path / "metadata.csv").write_text("file_name,label\ntest/cat/2.png,c\n")
    assert read(tmp_path).content_hash == plain.content_hash
    assert read(tmp_path, "label").content_hash != named.content_hash


REFUSED: list[tuple[str, str | None, str | None, str]] = [
    ("Parquet", "breed", None, "has no column 'breed' of labels; allowed: label, pet"),
    ("Parquet", "img", None, "has no column 'img' of labels; allowed: label, pet"),
    ("Parquet", None, "mask", "has no image column 'mask' of {bytes, path}"),
    (
        "tar",
        "breed",
        None,
        "column 'breed' of 'set' has no label for each training image",
    ),
    ("CSV", "breed", None, "has no column 'breed'; its columns: file_name, label, pet"),
    ("CSV", "pet", "name", "has no column 'name'; its columns: file_name, label, pet"),
    ("CSV", "pet", "label", "column 'pet' of '"),
    ("CSV", None, "label", "has no columns that data.label_column or data.image_column names"),
    ("array", "label", None, "'set' has no columns that data.label_column or data.image_column names"),
]


@pytest.mark.parametrize(("kind", "label", "image", "message"), REFUSED)
def test_a_column_that_is_not_there_is_refused(
    tmp_path: Path, kind: str, label: str | None, image: str | None, message: str
) -> None:
    path = WRITERS[kind](tmp_path, {"label": TWICE, "pet": PETS}) if kind in WRITERS else tmp_path / "set.npz"
    np.savez(tmp_path / "set.npz", x_train=np.zeros((2, 4, 4), np.uint8), y_train=[0, 1])
    assert message in refusal(lambda: load(path, label_column=label, image_column=image))


@pytest.mark.parametrize("kind", ["Parquet", "Arrow", "tar"])
def test_the_image_column_belongs_to_the_cache_key_and_the_label_column_to_the_fingerprint(
    tmp_path: Path, kind: str
) -> None:
    path = WRITERS[kind](tmp_path, {"label": TWICE, "pet": PETS})
    image = "png" if kind == "tar" else "img"
    changes = [{}, {"label_column": "label"}, {"label_column": "pet"}, {"image_column": image}]
    assert len({load(path, holdout=0.0, **each).fingerprint for each in changes}) == 4


def test_a_second_image_is_read_if_it_is_named(tmp_path: Path) -> None:
    images = table_of(IMAGES, TWICE).append_column("mask", table_of(IMAGES[::-1], TWICE)["img"])
    pq.write_table(images, tmp_path / "set.parquet")
    write_tar(tmp_path / "set.tar", [("a.jpg", IMAGES[0]), ("a.png", IMAGES[1])])
    for name, column, expected in (("parquet", "mask", IMAGES[::-1]), ("tar", "png", IMAGES[1:2])):
        assert [*read(tmp_path / f"set.{name}", None, column).splits["train"].images()] == expected


def test_what_needs_labels_names_the_columns_that_may_hold_them(tmp_path: Path) -> None:
    images = load(_parquet(tmp_path, {"image_id": IDS}), holdout=0.0)
    assert refusal(images.require_labels, "probe") == (
        f"probe needs labels; dataset 'set' has none in train: {images.notes[0]}"
    )
    few = {"label_column": "pet", "labels_per_class": 5, "holdout": 0.0}
    assert refusal(lambda: load(_parquet(tmp_path, {"pet": PETS}), **few)) == (
        "5 images per class requested; a class has only 1 in train"
    )
