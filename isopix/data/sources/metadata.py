"""Labels beside images in metadata.csv, as Hugging Face's imagefolder has it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

from pyarrow import csv

from isopix.core.text import naming
from isopix.data.sources.base import ReadOptions
from isopix.data.sources.labels import LabelColumn, column_labels, find_label

NAME = "metadata.csv"
IMAGE = "file_name"  # the column of paths of images, from the folder of the metadata on

Values = dict[str, object]  # labels by the paths of images


class Metadata(NamedTuple):
    """The labels of images, the files that they were read from, and what was not read."""

    labels: Values
    files: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def read_metadata(
    root: Path, entries: Iterable[str], images: Sequence[str], options: ReadOptions, *, has_classes: bool
) -> Metadata:
    """Return the labels of the metadata among the files of a folder: those of the label column in the
    options, which must be there, or else of a column with a name of labels, unless there are class folders.
    """
    wanted = options.label_column or options.image_column
    files = sorted(each for each in entries if each.rpartition("/")[2] == NAME)
    if not files and wanted:
        raise ValueError(f"folder {root} has no {NAME} with a column '{wanted}'")
    if has_classes and not wanted:
        note = "labels are the names of folders; data.label_column=NAME reads a column of"
        return Metadata({}, notes=tuple(f"{note} {file}" for file in files[:1]))
    labels, notes = Values(), tuple[str, ...]()
    try:
        for file in files:
            column, found = _labels(root, file, options)
            labels, notes = labels | found, column.notes()
        if labels and labels.keys().isdisjoint(images):
            raise ValueError(f"{files[0]} names no image of folder {root}, as in {next(iter(labels))}")
    except ValueError as error:
        if wanted:
            raise
        return Metadata({}, notes=(f"no labels are read: {error}",))
    return Metadata(labels, files if labels else (), notes)


def _labels(root: Path, file: str, options: ReadOptions) -> tuple[LabelColumn, Values]:
    path, image = root / file, options.image_column or IMAGE
    values = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    with naming(f"file {path}"):
        table = csv.read_csv(path, None, csv.ParseOptions(newlines_in_values=True), values)
    if image not in table.column_names:
        raise ValueError(f"{path} has no column '{image}'; its columns: {', '.join(table.column_names)}")
    column = find_label(str(path), table.drop_columns([image]).schema, (), options.label_column)
    labels = None if column.name is None else column_labels(table[column.name])
    if labels is None:
        return column.unread(options.label_column), {}
    folder = file.removesuffix(NAME)
    paths = (normpath(f"{folder}{each}") for each in table[image].to_pylist())
    return column, dict(zip(paths, labels.tolist(), strict=True))
