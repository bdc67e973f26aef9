"""Tables in the Hugging Face layout: an image column of {bytes, path} and a column of class numbers."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from isopix.data.sources.base import Part, labels_or_none

ROWS = 1024  # read at once
LABEL_NAMES = ("label", "labels", "fine_label")  # tried in this order where several columns could be it


class Columns(NamedTuple):
    """Which columns of a table are the image and the label, and the class names that its metadata gives."""

    image: str
    label: str | None
    names: tuple[str, ...]


def find_columns(schema: pa.Schema, where: str) -> Columns:
    """The first column of struct {bytes, ...}; the label by type ClassLabel, else by name, else the only
    integer.

    Raises ValueError if there is no image column.
    """
    structs = [field for field in schema if pa.types.is_struct(field.type)]
    images = [field.name for field in structs if field.type.get_field_index("bytes") >= 0]
    if not images:
        raise ValueError(
            f"{where} has no image column of {{bytes, path}}; its columns: {', '.join(schema.names)}"
        )
    features = (
        json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    )
    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    typed = [name for name in integers if features.get(name, {}).get("_type") == "ClassLabel"]
    label = _choose_label(typed or integers)
    names = features.get(label, {}).get("names", ()) if label else ()
    return Columns(images[0], label, tuple(names.values() if isinstance(names, Mapping) else names))


def table_part(
    count: int, batches: Callable[[str], Iterator[pa.Array]], columns: Columns, name: Callable[[int], str]
) -> Part:
    """The part whose images and labels lie in these columns, read batch by batch."""

    def pictures() -> Iterator[bytes]:
        for structs in batches(columns.image):
            yield from (picture or b"" for picture in structs.field("bytes").to_pylist())

    if columns.label is None:
        return Part(count, pictures, name, None)
    values = (value for chunk in batches(columns.label) for value in chunk.to_pylist())
    return Part(count, pictures, name, labels_or_none(values, f"column '{columns.label}'"))


def _choose_label(candidates: list[str]) -> str | None:
    named = [name for name in LABEL_NAMES if name in candidates]
    if named:
        return named[0]
    return candidates[0] if len(candidates) == 1 else None
