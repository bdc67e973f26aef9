"""Tables in files: columns of text, and one of arrays that are written batch by batch."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from isopix.core.text import csv_text
from isopix.storage.arrays import npy_bytes, write_npy
from isopix.storage.atomic import temporary_folder

Columns = Mapping[str, Sequence[str | None]]
Batches = Iterable[NDArray[Any]]
VALUES = "features"  # the name of the column of arrays


def write_rows(path: Path, columns: Columns, batches: Batches) -> None:
    """Replace a file by a table of these columns and of `features`, [n ...], held in memory by batches.

    By suffix: an array [N ...] in `.npz`, nested lists of fixed size in `.parquet`, and in `.csv` a column
    for each number, in raster order. What is missing is empty in `.npz`, which has no null.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path, str(path)) as folder:
        WRITERS[path.suffix](folder / "table", columns, batches)
        (folder / "table").rename(path)


def _write_npz(path: Path, columns: Columns, batches: Batches) -> None:
    write_npy(path.with_suffix(".npy"), batches)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(path.with_suffix(".npy"), f"{VALUES}.npy")
        for name, values in columns.items():
            archive.writestr(f"{name}.npy", npy_bytes(np.array([each or "" for each in values])))


def _write_parquet(path: Path, columns: Columns, batches: Batches) -> None:
    writer: pq.ParquetWriter | None = None
    for part, batch in _parts(columns, batches):
        nested = pa.array(batch.reshape(-1))
        for size in reversed(batch.shape[1:]):
            nested = pa.FixedSizeListArray.from_arrays(nested, size)
        text = {name: pa.array(values, pa.string()) for name, values in part.items()}
        table = pa.table({**text, VALUES: nested})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _write_csv(path: Path, columns: Columns, batches: Batches) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for part, batch in _parts(columns, batches):
            numbers = batch.reshape(len(batch), -1)
            if not file.tell():
                file.write(csv_text([[*columns, *(f"{VALUES}_{i}" for i in range(numbers.shape[1]))]]))
            rows = zip(*part.values(), numbers, strict=True)
            file.write(csv_text([*text, *values] for *text, values in rows))


def _parts(columns: Columns, batches: Batches) -> Iterator[tuple[Columns, NDArray[Any]]]:
    """Yield each batch with its rows of the other columns."""
    start = 0
    for batch in batches:
        stop = start + len(batch)
        yield {name: values[start:stop] for name, values in columns.items()}, batch
        start = stop


WRITERS = {".parquet": _write_parquet, ".npz": _write_npz, ".csv": _write_csv}
