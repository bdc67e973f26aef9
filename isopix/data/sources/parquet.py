"""Parquet files in the Hugging Face layout."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isopix.data.sources.base import Source, SourceSplit, with_class_names
from isopix.data.sources.file_index import hash_table
from isopix.data.sources.file_table import FileTable
from isopix.data.sources.hf_columns import ROWS_PER_BATCH, ImageColumns, find_columns, one_line, table_split
from isopix.data.sources.shards import ShardIndex, files_by_split

MIN_ROW = 8  # bytes of the file for each row, far below those of an image
MAX_RATIO, ALWAYS_ALLOWED = 2, 64 * 2**20  # of a column of a row group, unpacked, to the file; bytes
BATCH_BYTES = 64 * 2**20


def read_parquet(path: Path, index: Path | None = None) -> Source:
    """Read one file as the training split, or a folder of files that begin with, or lie in, the split's name.

    If some files of a folder name a split, the others (unlabeled images of STL-10) are left out. The
    hashes of files are kept in the folder `index` (`hash_table`). Raises ValueError if a file cannot be read
    or none is train.
    """
    root = path if path.is_dir() else path.parent
    files = files_by_split(path, parquet_files(path) if path.is_dir() else [path], "parquet")
    with _open(files["train"][0]) as first:
        columns = find_columns(first.schema_arrow, f"Parquet file {files['train'][0]}")
    splits = {name: _parquet_split(paths, columns) for name, paths in files.items()}
    table = FileTable(root, (file.relative_to(root).as_posix() for paths in files.values() for file in paths))
    name = path.resolve().name.removesuffix(".parquet")
    return with_class_names(Source(name, splits, (), hash_table(table, index=index)), columns.names)


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder and of its sub-folders, one level deep, as on the Hub."""
    return sorted([*folder.glob("*.parquet"), *folder.glob("*/*.parquet")])


class ParquetShard(NamedTuple):
    """A file, the number of rows up to the end of each of its row groups, and how many are read at a time."""

    path: Path
    group_ends: NDArray[np.int64]
    rows_per_batch: int

    def __len__(self) -> int:
        return int(self.group_ends[-1]) if len(self.group_ends) else 0

    def values(self, column: str, start: int, stop: int) -> Iterator[pa.Array]:
        """Yield the values of rows `start` to `stop - 1`, of which only the row groups are read."""
        first, last = (int(np.searchsorted(self.group_ends, row, side="right")) for row in (start, stop - 1))
        begin = int(self.group_ends[first - 1]) if first else 0
        try:
            with pq.ParquetFile(self.path) as file:  # opened here: there may be more shards than open files
                groups = range(first, last + 1)
                for batch in file.iter_batches(self.rows_per_batch, row_groups=groups, columns=[column]):
                    lower, upper = max(start - begin, 0), min(stop - begin, len(batch))
                    if lower < upper:
                        yield batch.column(0).slice(lower, upper - lower)
                    begin += len(batch)
        except (pa.ArrowException, OSError, IndexError, ValueError) as error:
            raise ValueError(
                f"Parquet file {self.path}, column '{column}', cannot be read: {one_line(error)}"
            ) from error


def _parquet_split(files: list[Path], columns: ImageColumns) -> SourceSplit:
    shards = [_shard(file) for file in files]
    index = ShardIndex(map(len, shards))

    def batches(column: str, start: int, stop: int) -> Iterator[pa.Array]:
        for shard, first, end in index.ranges(start, stop):
            yield from shards[shard].values(column, first, end)

    def image_name(i: int) -> str:
        shard, row = index.row(i)
        return f"{files[shard]} row {row}"

    return table_split(len(index), batches, columns, image_name)


def _shard(path: Path) -> ParquetShard:
    with _open(path) as file:
        metadata = file.metadata
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return ParquetShard(path, np.cumsum(rows, dtype=np.int64), _rows_per_batch(file))


def _open(path: Path) -> pq.ParquetFile:
    """Open a file. Raises ValueError if it cannot be read, or claims more than a file of its size has."""
    try:
        file = pq.ParquetFile(path)
        rows, size, unpacked = file.metadata.num_rows, path.stat().st_size, _largest_column(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"Parquet file {path} cannot be read: {one_line(error)}") from error
    if rows * MIN_ROW > size:
        raise ValueError(f"Parquet file {path} of {size:,} bytes cannot have {rows:,} images")
    allowed = max(ALWAYS_ALLOWED, MAX_RATIO * size)
    if unpacked > allowed:
        raise ValueError(
            f"Parquet file {path} has a column that unpacks to {unpacked:,} bytes, above the limit of "
            f"{allowed:,}; write it with smaller row groups"
        )
    return file


def _rows_per_batch(file: pq.ParquetFile) -> int:
    """Return how many rows fit into `BATCH_BYTES` if all are the largest value that the file can have: many
    rows may refer to one value.
    """
    return min(ROWS_PER_BATCH, max(1, BATCH_BYTES // max(1, _largest_column(file))))


def _largest_column(file: pq.ParquetFile) -> int:
    """Return the bytes of the largest column of a row group after unpacking."""
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    sizes = (group.column(i).total_uncompressed_size for group in groups for i in range(group.num_columns))
    return max(sizes, default=0)
