"""Tables in files: columns of text, and one of arrays that is written batch by batch."""

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isopix.core.text import csv_text
from isopix.storage.arrays import npy_bytes, write_npy
from isopix.storage.atomic import replace_file, temporary_folder, write_csv

Columns = Mapping[str, Sequence[str | None]]
Batches = Iterable[NDArray[Any]]


def write_columns(path: Path, columns: Mapping[str, Sequence[object]]) -> None:
    """Replace a .csv or .parquet file by a table of these columns of text or numbers, None where missing."""
    if path.suffix == ".csv":
        return write_csv(path, list(columns), zip(*columns.values(), strict=True))
    content = io.BytesIO()
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), content)
    return replace_file(path, content.getvalue())


def write_rows(path: Path, columns: Columns, batches: Batches) -> None:
    """Replace a file by a table of these columns and of `features`, [n ...], one batch in memory at a time.

    By suffix: an array [N ...] in `.npz`, nested lists of fixed size in `.parquet`, and in `.csv` a column
    for each number, in raster order. What is missing is empty in `.npz`, which has no null.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path, str(path)) as folder:
        WRITERS[path.suffix](folder / "table", columns, batches)
        (folder / "table").rename(path)


def _write_npz(file: Path, columns: Columns, batches: Batches) -> None:
    write_npy(file.with_name("features.npy"), batches)
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(file.with_name("features.npy"), "features.npy")
        for name, values in columns.items():
            archive.writestr(f"{name}.npy", npy_bytes(np.array([each or "" for each in values])))


def _write_parquet(file: Path, columns: Columns, batches: Batches) -> None:
    writer: Any = None
    rest = {name: iter(values) for name, values in columns.items()}
    for batch in batches:
        nested = pa.array(batch.reshape(-1))
        for size in reversed(batch.shape[1:]):
            nested = pa.FixedSizeListArray.from_arrays(nested, size)
        text = {name: pa.array(islice(values, len(batch)), pa.string()) for name, values in rest.items()}
        table = pa.table({**text, "features": nested})
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    writer.close()


def _write_csv(file: Path, columns: Columns, batches: Batches) -> None:
    rest = zip(*columns.values(), strict=True)
    with file.open("w", encoding="utf-8", newline="") as text:
        for batch in batches:
            numbers = batch.reshape(len(batch), -1)
            if not text.tell():
                text.write(csv_text([[*columns, *(f"features_{i}" for i in range(numbers.shape[1]))]]))
            rows = zip(islice(rest, len(batch)), numbers, strict=True)
            text.write(csv_text([*row, *values] for row, values in rows))


WRITERS = {".parquet": _write_parquet, ".npz": _write_npz, ".csv": _write_csv}
