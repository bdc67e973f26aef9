"""Tables in the Hugging Face layout: an image column of {bytes, path} and a column of class indices."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isopix.data.sources.base import RawImage, SourceSplit, labels_or_none

ROWS_PER_BATCH = 1024  # read at a time
MAX_LISTED, MAX_MESSAGE = 10, 300  # columns and characters in messages
LABEL_NAMES = ("label", "labels", "fine_label")  # by preference, if several columns could be the label


class ImageColumns(NamedTuple):
    """The columns of images and labels of a table, and the class names in its metadata."""

    image: str
    label: str | None
    names: tuple[str, ...]


def find_columns(schema: pa.Schema, where: str) -> ImageColumns:
    """Return the first column of struct {bytes, ...} and the label column.

    The label column is of type ClassLabel, or else known by its name, or else the only integer column. Raises
    ValueError if there is no image column.
    """
    images = [field.name for field in schema if pa.types.is_struct(field.type) and _has_bytes(field.type)]
    if not images:
        names = ", ".join(schema.names[:MAX_LISTED])
        raise ValueError(f"{where} has no image column of {{bytes, path}}; its columns: {names}")
    features = _features(schema, where)
    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    typed = [name for name in integers if features.get(name, {}).get("_type") == "ClassLabel"]
    label = _choose_label(typed or integers)
    return ImageColumns(images[0], label, _class_names(features.get(label or "", {}), label, where))


def table_split(
    num_images: int,
    batches: Callable[[str, int, int], Iterator[pa.Array]],
    columns: ImageColumns,
    image_name: Callable[[int], str],
    folder: Path | None = None,
) -> SourceSplit:
    """Return the split whose images and labels are in these columns.

    `batches` yields the values of a column from one row to before another, batch by batch. An image without
    bytes is the file at its path, from the folder on; without a folder, an empty file.
    """

    def read_range(start: int, stop: int) -> Iterator[RawImage]:
        for structs in batches(columns.image, start, stop):
            yield from images_in(structs, folder)

    if columns.label is None:
        return SourceSplit(num_images, read_range, image_name, None)
    where = f"column '{columns.label}'"
    chunks = [_integers(chunk, where) for chunk in batches(columns.label, 0, num_images)]
    labels = labels_or_none(np.concatenate(chunks) if chunks else np.zeros(0, np.int64), where)
    return SourceSplit(num_images, read_range, image_name, labels)


def images_in(structs: pa.StructArray, folder: Path | None) -> Iterator[RawImage]:
    """Yield the images of rows, each when it is needed."""
    has_paths = folder is not None and structs.type.get_field_index("path") >= 0
    paths = structs.field("path") if has_paths else None
    for i, image in enumerate(structs.field("bytes")):
        path = None if paths is None or image.is_valid else paths[i].as_py()
        if folder is not None and isinstance(path, str) and path:
            yield folder / path
        else:
            yield image.as_py() or b""


def _has_bytes(kind: pa.StructType) -> bool:
    index = kind.get_field_index("bytes")
    return index >= 0 and kind.field(index).type in (pa.binary(), pa.large_binary(), pa.binary_view())


def _features(schema: pa.Schema, where: str) -> dict[str, dict[str, Any]]:
    """Return the columns' entries in the metadata. Raises ValueError if it is not as `datasets` writes it."""
    try:
        entry: Any = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        for key in ("info", "features"):
            entry = entry.get(key) or {}
        return {str(name): value for name, value in entry.items() if isinstance(value, dict)}
    except (ValueError, RecursionError, AttributeError):
        raise ValueError(f"the metadata 'huggingface' of {where} is not that of a dataset") from None


def _class_names(feature: Mapping[str, Any], label: str | None, where: str) -> tuple[str, ...]:
    """Return the names of the classes, if there are any. Raises ValueError for anything but strings."""
    names = feature.get("names") or ()
    values = names.values() if isinstance(names, Mapping) else names
    listed = isinstance(values, Iterable) and not isinstance(values, str)
    if not listed or not all(isinstance(each, str) for each in values):
        raise ValueError(f"the class names of column '{label}' of {where} are not a list of strings")
    return tuple(values)


def _integers(chunk: pa.Array, where: str) -> NDArray[np.int64]:
    """Return the values, and -1 for those that are missing. Raises ValueError for other values."""
    try:
        return np.asarray(chunk.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"{where} cannot be read as integers of 64 bits: {one_line(error)}") from None


def one_line(error: Exception) -> str:
    """Return the message of an error of pyarrow in one line."""
    return " ".join(str(error).split())[:MAX_MESSAGE]


def _choose_label(candidates: list[str]) -> str | None:
    named = [name for name in LABEL_NAMES if name in candidates]
    if named:
        return named[0]
    return candidates[0] if len(candidates) == 1 else None
