"""Parquet files in the Hugging Face layout."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isopix.data.sources.base import SPLIT_WORDS, Part, Source, SplitName, class_names, digest_tree
from isopix.data.sources.hf_columns import ROWS, Columns, find_columns, table_part

SPLIT_WORD = re.compile(rf"({'|'.join(SPLIT_WORDS)})(?=[-_.]|$)")


def read_parquet(path: Path) -> Source:
    """One file, all of it train; or a folder of files whose name, or whose folder's, begins with the split.

    In a folder where some files name a split, those that name none (STL-10's unlabelled images) are left out.
    Raises ValueError if a file cannot be read or none is train.
    """
    root = path if path.is_dir() else path.parent
    files = _by_split(path)
    schema = _open(files["train"][0]).schema_arrow
    columns = find_columns(schema, f"Parquet file {files['train'][0]}")
    parts = {name: _parquet_part(paths, columns) for name, paths in files.items()}
    tree = {file.relative_to(root).as_posix(): file for paths in files.values() for file in paths}
    name = path.resolve().name.removesuffix(".parquet")
    return Source(name, parts, class_names(columns.names, parts), digest_tree(tree))


def parquet_files(folder: Path) -> list[Path]:
    """Those of the folder and of its sub-folders, one level deep, as the hub lays them out."""
    return sorted([*folder.glob("*.parquet"), *folder.glob("*/*.parquet")])


def _by_split(path: Path) -> dict[SplitName, list[Path]]:
    if not path.is_dir():
        return {"train": [path]}
    files: dict[SplitName, list[Path]] = {}
    nameless: list[Path] = []
    for file in parquet_files(path):
        words = [SPLIT_WORD.match(piece) for piece in file.relative_to(path).parts]
        word = next((match[1] for match in words if match), None)
        (files.setdefault(SPLIT_WORDS[word], []) if word else nameless).append(file)
    files = files or {"train": nameless}
    if "train" not in files:
        raise ValueError(f"folder {path} has no train*.parquet, only {', '.join(sorted(files))}")
    return files


def _parquet_part(files: list[Path], columns: Columns) -> Part:
    opened = [_open(file) for file in files]
    ends = list(accumulate(file.metadata.num_rows for file in opened))

    def batches(column: str) -> Iterator[pa.Array]:
        for path, file in zip(files, opened, strict=True):
            try:
                for batch in file.iter_batches(ROWS, columns=[column]):
                    yield batch.column(0)
            except (pa.ArrowException, OSError, IndexError) as error:
                raise ValueError(
                    f"Parquet file {path}, column '{column}', cannot be read: {_line(error)}"
                ) from error

    def name(i: int) -> str:
        file = bisect_right(ends, i)
        return f"{files[file]} row {i - (ends[file - 1] if file else 0)}"

    return table_part(ends[-1], batches, columns, name)


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"Parquet file {path} cannot be read: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
