"""Labels: the values that are classes, and the columns of tables, or of metadata.csv, that hold them."""

import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any

import pyarrow as pa
from pyarrow import csv, types

from isopix.core.files import MAX_BYTES, regular
from isopix.core.text import count_of, naming, normal_form
from isopix.data.dataset import SplitReading
from isopix.data.sources.split_names import SPLIT_COLUMNS, require_one_split

LABEL_NAMES = ("label", "labels", "fine_label", "cls", "class", "target", "category")  # by preference
MAX_CLASSES = 100_000  # ImageNet-21k has 21,843
MAX_INDEX = 1_000  # unnamed labels up to here are class indices, also if some are missing; above it, ids
MAX_LISTED = 10  # columns in a note
METADATA = "metadata.csv"


def find_label(
    where: str, schema: pa.Schema, typed: Sequence[str], wanted: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """Return the column `wanted`, or else one with a name of labels, or the only one that is typed as labels;
    and a note of others that may hold labels, unless one without a type was found.

    Raises ValueError if there is no column `wanted` of labels.
    """
    columns = [field.name for field in schema if _may_be_label(field.type)]
    if wanted is not None:
        if wanted not in columns:
            raise ValueError(f"{where} has no column '{wanted}' of labels; columns: {', '.join(columns)}")
        return wanted, ()
    named = [name for name in LABEL_NAMES if name in (typed or columns)]
    label = next(iter(named or (typed if len(typed) == 1 else ())), None)
    others = [each for each in (columns if label is None else typed) if each != label]
    if not others:
        return label, ()
    read = f"labels are those of column '{label}'" if label else "no labels are read"
    names = ", ".join(others[:MAX_LISTED])
    return label, (f"{read}; columns that may hold labels: {names}; data.label_column=NAME chooses one",)


def _may_be_label(kind: pa.DataType) -> bool:
    return not (types.is_nested(kind) or types.is_binary(kind) or types.is_temporal(kind))


def label_of(value: object) -> int | str | None:
    """Return a whole number from 0 on; a string or a bool as the name of a class; None for other values."""
    if isinstance(value, bool | str):
        return sys.intern(normal_form(str(value)))
    is_index = isinstance(value, int | float) and 0 <= value < 2**63 and value % 1 == 0
    return int(value) if is_index else None  # type: ignore[call-overload]


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


def read_metadata(
    root: Path, files: Iterable[str], label: str, image: str | None, reading: SplitReading
) -> dict[str, object]:
    """Return the label of each image in the files metadata.csv of a folder, by path: their column `label`,
    and `image` of paths from the file's folder on, `file_name` as in Hugging Face's imagefolder by default.
    """
    labels, image = dict[str, object](), image or "file_name"
    values = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    for file in files:
        with naming(f"file {root / file}"):
            source = regular(root / file, MAX_BYTES)
            table = csv.read_csv(source, None, csv.ParseOptions(newlines_in_values=True), values)
            for column in SPLIT_COLUMNS & {*table.column_names} if reading == "auto" else ():
                require_one_split(f"column '{column}'", table[column].to_pylist())
            if missing := {label, image}.difference(table.column_names):
                raise ValueError(f"no column '{min(missing)}'; columns: {', '.join(table.column_names)}")
        folder = file.removesuffix(METADATA)
        paths = (normpath(f"{folder}{each}") for each in table[image].to_pylist())
        labels |= zip(paths, table[label].to_pylist(), strict=True)
    return labels
