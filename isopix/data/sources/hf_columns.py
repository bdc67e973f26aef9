"""Tables in the Hugging Face layout: an image column of {bytes, path} and a column of class indices."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from isopix.data.sources.base import SourceSplit, labels_or_none

ROWS_PER_BATCH = 1024  # read at a time
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
    structs = [field for field in schema if pa.types.is_struct(field.type)]
    images = [field.name for field in structs if field.type.get_field_index("bytes") >= 0]
    if not images:
        raise ValueError(
            f"{where} has no image column of {{bytes, path}}; its columns: {', '.join(schema.names)}"
        )
    metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = metadata.get("info", {}).get("features", {})
    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    typed = [name for name in integers if features.get(name, {}).get("_type") == "ClassLabel"]
    label = _choose_label(typed or integers)
    names = features.get(label, {}).get("names", ()) if label else ()
    return ImageColumns(images[0], label, tuple(names.values() if isinstance(names, Mapping) else names))


def table_split(
    num_images: int,
    batches: Callable[[str], Iterator[pa.Array]],
    columns: ImageColumns,
    image_name: Callable[[int], str],
) -> SourceSplit:
    """Return the split whose images and labels are in these columns, read batch by batch."""

    def images() -> Iterator[bytes]:
        for structs in batches(columns.image):
            yield from (image or b"" for image in structs.field("bytes").to_pylist())

    if columns.label is None:
        return SourceSplit(num_images, images, image_name, None)
    values = (value for chunk in batches(columns.label) for value in chunk.to_pylist())
    return SourceSplit(num_images, images, image_name, labels_or_none(values, f"column '{columns.label}'"))


def _choose_label(candidates: list[str]) -> str | None:
    named = [name for name in LABEL_NAMES if name in candidates]
    if named:
        return named[0]
    return candidates[0] if len(candidates) == 1 else None
