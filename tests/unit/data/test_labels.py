"""Which values are labels, where they are found in tables, tar files and metadata, and what is not read."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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


def _tar(path: Path, fields: Fields) -> Path:
    rows = ({name: values[i] for name, values in fields.items()} for i in range(4))
    samples = [
        ((f"{i}.png", IMAGES[i]), (f"{i}.json", json.dumps(row).encode())) for i, row in enumerate(rows)
    ]
    return write_tar(path / "set.tar", [member for sample in samples for member in sample])


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
    ({"label": TWICE, "pet": PETS}, "pet", PET_INDICES, ("cat", "cow", "dog")),
]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(("fields", "wanted", "labels", "classes"), EVERYWHERE)
def test_every_format_reads_the_same_values_as_labels(
    tmp_path: Path, kind: str, fields: Fields, wanted: str | None, labels: list[int] | None, classes: tuple
) -> None:
    source = read(WRITERS[kind](tmp_path, fields), wanted)
    assert found(source) == (labels, classes)


TABLES: list[tuple[Fields, str | None, str]] = [  # the column of labels, and what is said of others
    ({"label": TWICE, "caption": PETS}, "label", ""),
    ({"class": TWICE, "image_id": IDS}, "class", ""),
    ({"fine_label": TWICE, "coarse_label": [0, 1, 0, 1]}, "fine_label", ""),
    ({"species": TWICE, "age": [1, 2, 1, 2], "pet": PETS}, None, "may hold labels: species, age, pet; data."),
    ({"label": [1.5, 2.0, 1.0, 1.0]}, None, "no labels are read; columns that may hold labels: label;"),
    ({"label": [[1], [2], [1], [2]], "pet": PETS}, None, "may hold labels: pet;"),
    ({"labels": [2, 1, None, 1]}, None, "1 of 4 train images of dataset 'set' have no label"),
]


@pytest.mark.parametrize(("fields", "column", "note"), TABLES)
def test_a_table_says_which_columns_may_hold_labels(
    tmp_path: Path, fields: Fields, column: str | None, note: str
) -> None:
    source = read(_parquet(tmp_path, fields))
    assert found(source)[0] == (fields[column] if column else None)
    assert note in "".join(source.label_notes)
    assert bool(source.label_notes) == bool(note)


def test_of_class_labels_one_with_a_known_name_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    kinds = {name: {"_type": "ClassLabel", "names": ["hen", "ape"]} for name in ("coarse", "fine_label")}
    columns = {name: [1, 0, 1, 0] for name in kinds}
    pq.write_table(_columns({"label": TWICE, **columns}, kinds), tmp_path / "set.parquet")
    source = read(tmp_path / "set.parquet")
    assert found(source) == ([1, 0, 1, 0], ("hen", "ape"))
    assert "of column 'fine_label'; columns that may hold labels: coarse;" in source.label_notes[0]
    kinds["fine_label"]["names"] = ["ape", "hen"]
    pq.write_table(_columns({"fine_label": [1, 0, 1, 0]}, kinds), tmp_path / "set-2.parquet")
    assert "set.parquet has other columns or classes than" in refusal(read, tmp_path)


def labels_of(source: Source) -> dict[str, list[int]]:
    return {name: each.labels.tolist() for name, each in source.splits.items() if each.labels is not None}


def test_a_class_is_the_same_in_all_splits_and_shards(tmp_path: Path) -> None:
    for name, first in (("train-0", "dog"), ("train-1", "ant"), ("test-0", "eel")):
        pq.write_table(_columns({"label": [first, *PETS[1:]]}), tmp_path / f"{name}.parquet")
    source = read(tmp_path)
    assert source.classes == ("ant", "cat", "cow", "dog", "eel")
    assert labels_of(source) == {"train": [3, 1, 3, 2, 0, 1, 3, 2], "test": [4, 1, 3, 2]}


def test_class_folders_win_over_metadata_unless_a_column_is_named(tmp_path: Path, draw: Draw) -> None:
    for name in ("train/cat/0.png", "train/dog/1.png", "test/cat/2.png"):
        draw(tmp_path / name)
    (tmp_path / "metadata.csv").write_text('file_name,label,text\ntest/cat/2.png,b,"two\nlines"\n')
    (tmp_path / "train" / "metadata.csv").write_text("file_name,label\ncat/0.png,b\ndog/1.png,a\n")
    plain, named = read(tmp_path), read(tmp_path, "label")
    assert (plain.classes, named.classes) == (("cat", "dog"), ("a", "b"))
    assert plain.label_notes == (
        "labels are the names of folders; data.label_column=NAME reads a column of metadata.csv",
    )
    assert labels_of(named) == {"train": [1, 0], "test": [1]}
    (tmp_path / "metadata.csv").write_text("file_name,label\ntest/cat/2.png,c\n")
    assert read(tmp_path).content_hash == plain.content_hash
    assert read(tmp_path, "label").content_hash != named.content_hash


REFUSED: list[tuple[str, str | None, str | None, str]] = [
    ("Parquet", "breed", None, "has no column 'breed'; its columns: img, label, pet"),
    ("Parquet", "img", None, "column 'img' has no labels; allowed: whole numbers, strings and booleans"),
    ("Parquet", None, "mask", "has no image column 'mask' of {bytes, path}"),
    ("tar", "breed", None, "column 'breed' has no labels"),
    ("CSV", "breed", None, "has no column 'breed'; its columns: label, pet"),
    ("CSV", None, "name", "has no column 'name'; its columns: file_name, label, pet"),
    ("CSV", None, "pet", "metadata.csv names no image of folder"),
]


@pytest.mark.parametrize(("kind", "label", "image", "message"), REFUSED)
def test_a_column_that_is_not_there_is_refused(
    tmp_path: Path, kind: str, label: str | None, image: str | None, message: str
) -> None:
    path = WRITERS[kind](tmp_path, {"label": TWICE, "pet": PETS})
    assert message in refusal(read, path, label, image)


def test_metadata_that_cannot_be_read_is_noted_unless_a_column_is_named(tmp_path: Path, draw: Draw) -> None:
    folder = draw(tmp_path / "photos" / "0.png").parent
    assert "has no metadata.csv with a column 'label'" in refusal(read, folder, "label")
    (folder / "metadata.csv").write_text("")
    assert "no labels are read: file " in read(folder).label_notes[0]
    assert "metadata.csv cannot be read: Empty CSV file" in refusal(read, folder, "label")


@pytest.mark.parametrize("kind", WRITERS)
def test_the_image_column_belongs_to_the_cache_key_and_the_label_column_to_the_fingerprint(
    tmp_path: Path, kind: str
) -> None:
    path = WRITERS[kind](tmp_path, {"label": TWICE, "pet": PETS})
    image = {"tar": "png", "CSV": "file_name"}.get(kind, "img")
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
    assert images.notes == images.label_notes
    assert refusal(images.require_labels, "probe") == (
        f"probe needs labels; dataset 'set' has none in train: {images.notes[0]}"
    )
    few = {"label_column": "pet", "labels_per_class": 5, "holdout": 0.0}
    assert refusal(lambda: load(_parquet(tmp_path, {"pet": PETS}), **few)) == (
        "5 images per class requested; a class has only 1 in train"
    )
