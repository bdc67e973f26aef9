"""Labels: the values that are classes, and the columns of tables, or of metadata.csv, that hold them."""

import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, types

from isopix.core.text import count_of, naming, normal_form

LABEL_NAMES = ("label", "labels", "fine_label", "cls", "class", "target", "category")  # by preference
MAX_CLASSES = 100_000  # ImageNet-21k has 21,843
MAX_INDEX = 1_000  # unnamed labels up to here are class indices, also if some are missing; above it, ids
MAX_LISTED = 10  # columns in a note
METADATA = "metadata.csv"
IMAGE = "file_name"  # its column of paths of images, from its folder on

ColumnNames = tuple[str | None, str | None]  # of labels and images, where they are given
Labels = NDArray[Any]  # whole numbers, -1 where missing; or names of classes, None where missing


class LabelColumn(NamedTuple):
    """The column of labels, if there is one, and others that may hold labels."""

    name: str | None
    others: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """Return a note of what was not read."""
        if not self.others:
            return ()
        read = f"labels are those of column '{self.name}'" if self.name else "no labels are read"
        others = f"columns that may hold labels: {', '.join(self.others[:MAX_LISTED])}"
        return (f"{read}; {others}; data.label_column=NAME (--label-column of a probe) chooses one",)

    def unread(self, wanted: str | None) -> "LabelColumn":
        """Return that this column is not read. Raises ValueError if it was `wanted`."""
        if wanted is not None:
            raise ValueError(f"column '{wanted}' has no labels; allowed: whole numbers, strings and booleans")
        return LabelColumn(None, tuple(each for each in (self.name, *self.others) if each))


def find_label(where: str, schema: pa.Schema, typed: Collection[str], wanted: str | None) -> LabelColumn:
    """Return the column `wanted`, or else one with a name of labels, or the only one that is typed as labels.

    Raises ValueError if there is no column `wanted`.
    """
    if wanted is not None:
        if wanted not in schema.names:
            raise ValueError(f"{where} has no column '{wanted}'; its columns: {', '.join(schema.names)}")
        return LabelColumn(wanted)
    columns = typed or [field.name for field in schema if _may_be_label(field.type)]
    named = [name for name in LABEL_NAMES if name in columns] or ([*typed] if len(typed) == 1 else [])
    label = named[0] if named else None
    others = columns if typed or label is None else ()
    return LabelColumn(label, tuple(each for each in others if each != label))


def _may_be_label(kind: pa.DataType) -> bool:
    return not (types.is_nested(kind) or types.is_binary(kind) or types.is_temporal(kind))


def column_labels(column: pa.ChunkedArray) -> Labels | None:
    """Return the labels of a column; None if it has other values, such as fractions or lists."""
    if types.is_integer(column.type):
        return np.asarray(column.cast(pa.int64(), safe=False).fill_null(-1).to_numpy())
    values = column.to_pylist()
    is_label = (each is None or each != each or label_of(each) is not None for each in values)  # noqa: PLR0124
    return label_array(values) if all(is_label) else None


def label_array(values: Iterable[object]) -> Labels:
    """Return values as labels; those that are none are missing."""
    labels = list(map(label_of, values))
    if any(isinstance(each, str) for each in labels):
        return np.array(labels, object)
    return np.array([-1 if each is None else each for each in labels], np.int64)


def label_of(value: object) -> int | str | None:
    """Return a whole number; or a string or a bool as the name of a class; None for any other value."""
    if isinstance(value, bool | str):
        return sys.intern(normal_form(str(value)))
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole and abs(value) < 2**63 else None  # type: ignore[arg-type, call-overload]


def class_keys(labels: Collection[Any], names: Sequence[str]) -> Sequence[Any]:
    """Return the label of each class. Raises ValueError for labels that are none of the classes."""
    if any(isinstance(each, str) for each in labels):
        keys: Sequence[Any] = names or sorted(labels)
    elif names or max(labels, default=0) <= MAX_INDEX:
        keys = range(len(names) or max(labels, default=-1) + 1)
    else:
        keys = sorted(labels)
    if unknown := {*labels}.difference(keys):
        count = count_of(len(names), "class name")
        raise ValueError(f"label {min(unknown)} has no class name; the dataset has {count}")
    if len(keys) > MAX_CLASSES and not names:
        raise ValueError(f"they are of {len(keys):,} different classes; allowed: up to {MAX_CLASSES:,}")
    return keys


class Metadata(NamedTuple):
    """The labels of images, the files that they were read from, and notes of what was not read."""

    labels: dict[str, object]  # by the paths of images
    files: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def read_metadata(
    root: Path, entries: Iterable[str], images: Sequence[str], columns: ColumnNames, *, has_classes: bool
) -> Metadata:
    """Return the labels in the metadata.csv of a folder, as Hugging Face's imagefolder has it: of the label
    column that is wanted, or else of one with a name of labels, unless there are class folders.
    """
    wanted = columns[0] or columns[1]
    files = sorted(each for each in entries if each.rpartition("/")[2] == METADATA)
    if not files and wanted:
        raise ValueError(f"folder {root} has no {METADATA} with a column '{wanted}'")
    if has_classes and not wanted:
        note = "labels are the names of folders; data.label_column=NAME reads a column of"
        return Metadata({}, notes=tuple(f"{note} {file}" for file in files[:1]))
    labels, notes = dict[str, object](), tuple[str, ...]()
    try:
        for file in files:
            column, found = _metadata_labels(root, file, *columns)
            labels, notes = labels | found, column.notes()
        if labels and labels.keys().isdisjoint(images):
            raise ValueError(f"{files[0]} names no image of folder {root}, as in {next(iter(labels))}")
    except ValueError as error:
        if wanted:
            raise
        return Metadata({}, notes=(f"no labels are read: {error}",))
    return Metadata(labels, files if labels else (), notes)


def _metadata_labels(
    root: Path, file: str, label: str | None, image: str | None
) -> tuple[LabelColumn, dict[str, object]]:
    path, image = root / file, image or IMAGE
    values = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    with naming(f"file {path}"):
        table = csv.read_csv(path, None, csv.ParseOptions(newlines_in_values=True), values)
    if image not in table.column_names:
        raise ValueError(f"{path} has no column '{image}'; its columns: {', '.join(table.column_names)}")
    column = find_label(str(path), table.drop_columns([image]).schema, (), label)
    labels = None if column.name is None else column_labels(table[column.name])
    if labels is None:
        return column.unread(label), {}
    folder = file.removesuffix(METADATA)
    paths = (normpath(f"{folder}{each}") for each in table[image].to_pylist())
    return column, dict(zip(paths, labels.tolist(), strict=True))
