"""Datasets as the `datasets` library keeps them on the disk: folders of `save_to_disk`, and Arrow files."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isopix.data.sources.arrow_compression import is_compressed
from isopix.data.sources.base import SPLIT_ALIASES, Source, SourceSplit, SplitName, with_class_names
from isopix.data.sources.file_index import hash_table
from isopix.data.sources.file_table import FileTable
from isopix.data.sources.hf_columns import ImageColumns, find_columns, images_in, one_line, table_split
from isopix.data.sources.shards import ShardIndex
from isopix.storage.atomic import read_json

DICTIONARY, STATE = "dataset_dict.json", "state.json"  # of a DatasetDict, and of a Dataset
# `datasets` names the files of its cache so: cifar10-train.arrow, imagenet-1k-train-00000-of-00257.arrow
CACHED = re.compile(rf"(?:.*-)?({'|'.join(SPLIT_ALIASES)})(?:-\d+-of-\d+)?\.arrow")
END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream
END_BYTES = len(END)
MIN_ROW = 4  # bytes of the place of an image in the table
TRANSFORMED = "cache-"  # begins the names of what `map` and `shuffle` have written beside them


class ArrowShard(NamedTuple):
    """A file, its columns' types, where its batches begin, and the number of rows up to the end of each."""

    path: Path
    schema: pa.Schema
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def values(self, column: str, start: int, stop: int) -> Iterator[pa.Array]:
        """Yield the values of rows `start` to `stop - 1`, as they lie in the file."""
        if start == stop:
            return
        first, last = (int(np.searchsorted(self.ends, row, side="right")) for row in (start, stop - 1))
        with _opened(self.path) as file:
            for i in range(first, last + 1):
                begin = int(self.ends[i - 1]) if i else 0
                file.seek(int(self.starts[i]))
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(file), self.schema)
                lower, upper = max(start - begin, 0), min(stop - begin, len(batch))
                values = batch.column(column).slice(lower, upper - lower)
                values.validate(full=True)  # places within the file are as it says, else
                yield values


def read_arrow(path: Path, index: Path | None = None) -> Source:
    """Read a folder of `DatasetDict.save_to_disk` or `Dataset.save_to_disk`, Arrow files in the cache of
    `datasets`, by the splits in their names, or one Arrow file, as the training split.

    Images are {bytes, path}; without bytes they are the file at the path, from the Arrow file's folder on.
    The hashes of files are kept in the folder `index` (`hash_table`). Raises ValueError if a file cannot be
    read or none is train.
    """
    root = path if path.is_dir() else path.parent
    files = _files(path)
    shards = {name: [_index_shard(each) for each in paths] for name, paths in files.items()}
    first = shards["train"][0]
    columns = find_columns(first.schema, f"Arrow file {first.path}")
    table = FileTable(root.resolve(), (each.relative_to(root).as_posix() for each in chain(*files.values())))
    for shard in chain(*shards.values()):
        _check_columns(shard, columns, first)
        table.extend(os.path.relpath(each, table.root) for each in _outside(shard, columns.image))
    splits = {name: _split(each, columns) for name, each in shards.items()}
    name = path.resolve().name.removesuffix(".arrow")
    return with_class_names(Source(name, splits, (), hash_table(table, index=index)), columns.names)


def is_saved(folder: Path) -> bool:
    """Return whether a folder is one of `save_to_disk`."""
    return (folder / DICTIONARY).is_file() or (folder / STATE).is_file()


def cached_files(folder: Path) -> list[tuple[Path, str]]:
    """Return the files in a folder of the cache of `datasets`, and the word for the split of each."""
    found = sorted(each for each in folder.glob("*.arrow") if not each.name.startswith(TRANSFORMED))
    matches = [(file, CACHED.fullmatch(file.name)) for file in found]
    return [(file, match[1] if match else "train") for file, match in matches if match or len(found) == 1]


def _files(path: Path) -> dict[SplitName, list[Path]]:
    if not path.is_dir():
        return {"train": [path]}
    if (path / STATE).is_file():
        return {"train": _saved(path)}
    files: dict[SplitName, list[Path]] = {}
    if (path / DICTIONARY).is_file():
        for word in _strings(path / DICTIONARY, "splits"):
            if word in SPLIT_ALIASES:
                files.setdefault(SPLIT_ALIASES[word], []).extend(_saved(path / word))
    else:
        for file, word in cached_files(path):
            files.setdefault(SPLIT_ALIASES[word], []).append(file)
    if "train" not in files:
        only = ", ".join(sorted(files)) or "others"
        raise ValueError(f"folder {path} has no split train, only {only}")
    return files


def _saved(folder: Path) -> list[Path]:
    """Return the files of a saved dataset. Raises ValueError for what is not as `datasets` writes it."""
    state = _json(folder / STATE)
    if state.get("_indices_data_files"):
        raise ValueError(
            f"{folder / STATE} has an order of rows (of datasets 1); save it again with a current version"
        )
    entries = state.get("_data_files")
    listed = entries if isinstance(entries, list) else []
    given = [each.get("filename") for each in listed if isinstance(each, dict)]
    names = [name for name in given if isinstance(name, str) and name == Path(name).name]
    if not names or names != given:
        raise ValueError(f"{folder / STATE} has no list of the names of files in this folder")
    return [folder / name for name in names]


def _strings(file: Path, key: str) -> Sequence[str]:
    values = _json(file).get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{file} has no list of strings '{key}'")
    return values


def _json(file: Path) -> dict[str, object]:
    try:
        return read_json(file)
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None


@contextmanager
def _opened(path: Path) -> Iterator[pa.MemoryMappedFile]:
    """Map a file into memory, and name it in a ValueError that is raised meanwhile."""
    try:
        with pa.memory_map(str(path)) as file:
            yield file
    except (pa.ArrowException, OSError, EOFError, ValueError, LookupError) as error:
        raise ValueError(f"Arrow file {path} cannot be read: {one_line(error)}") from error


def _index_shard(path: Path) -> ArrowShard:
    starts, rows = [], []
    with _opened(path) as file:
        schema = pa.ipc.read_schema(pa.ipc.read_message(file))
        while (place := file.tell()) + END_BYTES < file.size():
            message = pa.ipc.read_message(file)
            if is_compressed(message.metadata.to_pybytes()):
                raise ValueError("it is compressed; write it without compression, as `datasets` does")
            count = pa.ipc.read_record_batch(message, schema).num_rows
            if not 0 <= count * MIN_ROW <= message.body.size:
                raise ValueError(f"a part of {message.body.size:,} bytes cannot have {count:,} images")
            starts.append(place)
            rows.append(count)
        if file.read() != END:
            raise ValueError("it is cut off: it has no end of stream")
    return ArrowShard(path, schema, np.array(starts, np.int64), np.cumsum(rows, dtype=np.int64))


def _check_columns(shard: ArrowShard, columns: ImageColumns, first: ArrowShard) -> None:
    """Raise ValueError unless the columns are of the types of the first file."""
    for name in filter(None, (columns.image, columns.label)):
        kind = first.schema.field(name).type
        if shard.schema.get_all_field_indices(name) != [shard.schema.get_field_index(name)] or (
            shard.schema.field(name).type != kind
        ):
            raise ValueError(f"Arrow file {shard.path} has no column '{name}' of {kind}")


def _split(shards: list[ArrowShard], columns: ImageColumns) -> SourceSplit:
    index = ShardIndex(map(len, shards))

    def batches(column: str, start: int, stop: int) -> Iterator[pa.Array]:
        for shard, first, end in index.ranges(start, stop):
            yield from shards[shard].values(column, first, end)

    def image_name(i: int) -> str:
        shard, row = index.row(i)
        return f"{shards[shard].path} row {row}"

    return table_split(len(index), batches, columns, image_name, shards[0].path.parent)


def _outside(shard: ArrowShard, column: str) -> Iterator[Path]:
    """Yield the files of images that are not in the table."""
    for structs in shard.values(column, 0, len(shard)):
        if structs.field("bytes").null_count:
            images = images_in(structs, shard.path.parent)
            yield from (image for image in images if isinstance(image, Path))
