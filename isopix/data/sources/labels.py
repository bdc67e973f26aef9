"""Labels: the values that are classes, and the columns of tables, or of metadata.csv, that hold them."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from posixpath import normpath
from typing import Any

import pyarrow as pa
from pyarrow import csv, types

from isopix.core.files import MAX_BYTES, regular
from isopix.core.text import count_of, naming, normal_form
from isopix.data.dataset import DataConfig
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


def read_labels(root: Path, metadata: Sequence[str], config: DataConfig) -> dict[str, object] | None:
    """Return the label of each image, by its path from the folder `root` on, that `data.labels_file` has, or
    else the folder's files metadata.csv; None without these, and if their columns are not as in Hugging
    Face's imagefolder and no setting has others.

    Paths are absolute, or from the folder of a metadata.csv on; those of a labels file, from `root` on.
    """
    if config.labels_file is not None:
        return _listed_labels(Path(config.labels_file).expanduser(), root, root, config)
    found = dict[str, object]()
    for each in metadata:
        labels = _listed_labels(root / each, (root / each).parent, root, config)
        if labels is None:
            return None
        found |= labels
    return found if metadata else None


def _listed_labels(file: Path, folder: Path, root: Path, config: DataConfig) -> dict[str, object] | None:
    values = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    with naming(f"file {file}"):
        source = regular(file, MAX_BYTES)
        table = csv.read_csv(source, None, csv.ParseOptions(newlines_in_values=True), values)
        columns, label = table.column_names, config.label_column or "label"
        image = config.image_column or ("file" if "file" in columns and config.labels_file else "file_name")
        if missing := {label, image}.difference(columns):
            if config.label_column is None and config.labels_file is None:
                return None
            raise ValueError(f"no column '{min(missing)}'; columns: {', '.join(columns)}")
        for column in SPLIT_COLUMNS & {*columns} if config.splits == "auto" else ():
            require_one_split(f"column '{column}'", table[column].to_pylist())
    base = folder.resolve()
    paths = (normpath(base / str(each)) for each in table[image].to_pylist())
    names = (each.removeprefix(f"{root.resolve()}/") for each in paths)
    return dict(zip(names, table[label].to_pylist(), strict=True))
