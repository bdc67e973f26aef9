"""Tables in the Hugging Face layout, images {bytes, path} and labels: Parquet and Arrow files."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isopix.core.files import regular
from isopix.core.text import naming
from isopix.data.dataset import DataConfig
from isopix.data.decode import RawImage
from isopix.data.sources.base import (
    READERS,
    Files,
    Reader,
    Source,
    SourceSplit,
    SplitName,
    files_below,
    files_by_split,
    joined,
    source_of_files,
)
from isopix.data.sources.folder import has_images
from isopix.data.sources.labels import find_label
from isopix.data.sources.split_names import SPLIT_COLUMNS, require_one_split
from isopix.storage.atomic import read_json

ROWS_PER_BATCH = 256  # of Parquet, read at a time
PARQUET_NAME = re.compile(r"[^.].*\.parquet", re.IGNORECASE)
DICTIONARY = "dataset_dict.json"  # of `DatasetDict.save_to_disk`
STATE = "state.json"  # of `Dataset.save_to_disk`
ARROW_NAME = re.compile(r"(?!\.|cache-).*\.arrow", re.IGNORECASE)  # `map` and `shuffle` write cache-*.arrow
END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream


class ColumnTable(NamedTuple):
    """A file of rows; `values` yields those of a column from one row to before another, batch by batch."""

    path: Path
    schema: pa.Schema
    num_rows: int
    values: Callable[[str, int, int], Iterator[pa.Array]]
    has_files: bool  # whether an image without bytes is the file at its path, from this one's folder on


class Columns(NamedTuple):
    """The columns of images and labels of a table, the class names in its metadata, and what is not read."""

    image: str
    label: str | None
    names: tuple[str, ...]
    notes: tuple[str, ...]


def read_parquet(path: Path, config: DataConfig) -> Source:
    """Read one file as the training split, or a folder of files by split (see `files_by_split`)."""
    return _read(path, files_by_split(path, PARQUET_NAME, config), _parquet, config)


def read_arrow(path: Path, config: DataConfig) -> Source:
    """Read one file as the training split, or a folder of `save_to_disk` or of the cache of `datasets`.

    Images are {bytes, path}; without bytes they are the file at the path, from the Arrow file's folder on.
    """
    shards = {
        name: [each for folder, own in groupby(files, attrgetter("parent")) for each in _saved(folder) or own]
        for name, files in files_by_split(path, ARROW_NAME, config).items()
    }
    return _read(path, shards if path.is_dir() else {"train": [path]}, open_arrow, config)


def _read(path: Path, files: Files, opened: Callable[[Path], ColumnTable], config: DataConfig) -> Source:
    tables = {name: list(map(opened, paths)) for name, paths in files.items()}
    splits, columns = splits_of(tables, config)
    outside = _outside(chain(*tables.values()), columns.image)
    source = source_of_files(path, chain(*files.values()), splits, columns.names, config, outside)
    return replace(source, notes=(*source.notes, *columns.notes))


def splits_of(
    tables: Mapping[SplitName, Sequence[ColumnTable]], config: DataConfig
) -> tuple[dict[SplitName, SourceSplit], Columns]:
    """Return the splits, and the columns of the first table. Raises ValueError if images are in another."""
    first = _columns(tables["train"][0], config)
    for table in chain(*tables.values()) if config.splits == "auto" else ():
        for column in SPLIT_COLUMNS & {*table.schema.names}:
            values = chain(*(each.unique().to_pylist() for each in table.values(column, 0, table.num_rows)))
            require_one_split(f"column '{column}' of {table.path}", values)
    for table in chain(*tables.values()):
        names = _class_names(table, first.label)
        if _image_column(table, config) != first.image or names not in ((), first.names):
            raise ValueError(f"{table.path} has other columns or classes than {tables['train'][0].path}")
    return {name: joined([_split(each, first) for each in parts]) for name, parts in tables.items()}, first


def _split(table: ColumnTable, columns: Columns) -> SourceSplit:
    def read_range(start: int, stop: int) -> Iterator[RawImage]:
        for structs in table.values(columns.image, start, stop):
            yield from _images(structs, table)

    def image_name(i: int) -> str:
        image = next(read_range(i, i + 1)) if table.has_files else None
        return str(image) if isinstance(image, Path) else f"{table.path} row {i}"

    labels = None if columns.label is None else _labels(table, columns.label)
    return SourceSplit(table.num_rows, read_range, image_name, labels)


def _labels(table: ColumnTable, column: str) -> NDArray[Any]:
    if column not in table.schema.names:
        return np.full(table.num_rows, None)
    chunks = (chunk.to_pylist() for chunk in table.values(column, 0, table.num_rows))
    return np.array([*chain.from_iterable(chunks)], object)


def _images(structs: pa.StructArray, table: ColumnTable) -> Iterator[RawImage]:
    has_files = table.has_files and structs.type.get_field_index("path") >= 0
    paths = structs.field("path") if has_files else None
    for i, image in enumerate(structs.field("bytes")):
        path = None if paths is None or image.is_valid else paths[i].as_py()
        yield table.path.parent / path if path else image.as_py() or b""


def _columns(table: ColumnTable, config: DataConfig) -> Columns:
    features = _features(table)
    integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    typed = [name for name in integers if features.get(name, {}).get("_type") == "ClassLabel"]
    label, notes = find_label(str(table.path), table.schema, typed, config.label_column)
    return Columns(_image_column(table, config), label, _class_names(table, label), notes)


def _class_names(table: ColumnTable, column: str | None) -> tuple[str, ...]:
    classes = _features(table).get(column or "", {}).get("names") or ()
    return tuple(classes.values() if isinstance(classes, Mapping) else classes)


def _image_column(table: ColumnTable, config: DataConfig) -> str:
    images = [each.name for each in table.schema if pa.types.is_struct(each.type) and _has_bytes(each.type)]
    wanted = config.image_column
    if not images or (wanted and wanted not in images):
        kind = f"column '{wanted}'" if wanted else "column"
        names = ", ".join(table.schema.names[:10])
        raise ValueError(f"{table.path} has no image {kind} of {{bytes, path}}; its columns: {names}")
    return wanted or images[0]


def _has_bytes(kind: pa.StructType) -> bool:
    index = kind.get_field_index("bytes")
    return index >= 0 and kind.field(index).type in (pa.binary(), pa.large_binary(), pa.binary_view())


def _features(table: ColumnTable) -> dict[str, dict[str, Any]]:
    with naming(f"the metadata 'huggingface' of {table.path}"):
        entry: Any = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        for key in ("info", "features"):
            entry = entry.get(key) or {}
        return {str(name): value for name, value in entry.items() if isinstance(value, dict)}


def _parquet(path: Path) -> ColumnTable:
    where = f"Parquet file {path}"
    with naming(where), pq.ParquetFile(regular(path)) as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        schema = file.schema_arrow
    ends = np.cumsum(groups, dtype=np.int64)

    def values(column: str, start: int, stop: int) -> Iterator[pa.Array]:
        first, last = (int(np.searchsorted(ends, row, side="right")) for row in (start, stop - 1))
        begin = int(ends[first - 1]) if first else 0
        # Opened here: there may be more shards than open files.
        with naming(f"{where}, column '{column}',"), pq.ParquetFile(path) as file:
            wanted = range(first, last + 1)
            for batch in file.iter_batches(ROWS_PER_BATCH, row_groups=wanted, columns=[column]):
                lower, upper = max(start - begin, 0), min(stop - begin, len(batch))
                if lower < upper:
                    yield batch.column(0).slice(lower, upper - lower)
                begin += len(batch)

    return ColumnTable(path, schema, sum(groups), values, has_files=False)


def open_arrow(path: Path) -> ColumnTable:
    """Map a file into memory; only what is used of it is read."""
    where = f"Arrow file {path}"
    with naming(where):
        file = pa.memory_map(str(regular(path)))
        table = pa.ipc.open_stream(file).read_all()
        file.seek(max(0, file.size() - len(END)))
        if file.read() != END:
            raise ValueError("it is cut off: it has no end of stream")

    def values(column: str, start: int, stop: int) -> Iterator[pa.Array]:
        with naming(where):
            for chunk in table.column(column).slice(start, stop - start).chunks:
                chunk.validate(full=True)  # offsets of a damaged file would lead outside of it
                yield chunk

    return ColumnTable(path, table.schema, table.num_rows, values, has_files=True)


def _outside(tables: Iterator[ColumnTable], column: str) -> Iterator[Path]:
    """Yield the files of images that are not in their table."""
    for table in (each for each in tables if each.has_files):
        for structs in table.values(column, 0, table.num_rows):
            if structs.field("bytes").null_count:
                yield from (image for image in _images(structs, table) if isinstance(image, Path))


def _saved(folder: Path) -> list[Path]:
    """Return the files of a folder of `save_to_disk`, as its state lists them; none of another folder."""
    if not (folder / STATE).is_file():
        return []
    with naming(str(folder / STATE)):
        state = read_json(folder / STATE)
        if state.get("_indices_data_files"):
            raise ValueError("it has an order of rows (of datasets 1); save it again with a current version")
        return [folder / Path(each["filename"]).name for each in state["_data_files"]]


def _is_arrow(path: Path) -> bool:
    if path.is_file():
        return path.suffix.lower() == ".arrow"
    is_saved = (path / DICTIONARY).is_file() or (path / STATE).is_file()
    return (is_saved or not has_images(path)) and bool(files_below(path, ARROW_NAME))


READERS["parquet"] = Reader(
    lambda path: not has_images(path) and bool(files_below(path, PARQUET_NAME)), read_parquet
)
READERS["arrow"] = Reader(_is_arrow, read_arrow)
