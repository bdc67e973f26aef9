"""Datasets as the `datasets` library saves them, for tests, written by pyarrow."""

import json
from pathlib import Path

import pyarrow as pa


def write_arrow(path: Path, table: pa.Table, rows_per_batch: int = 4, compression: str | None = None) -> Path:
    """Write an Arrow stream, as `datasets.ArrowWriter` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as stream:
        stream.write_table(table, rows_per_batch)
    return path


def save_to_disk(folder: Path, *shards: pa.Table) -> Path:
    """Write the files of `Dataset.save_to_disk`."""
    names = [f"data-{i:05}-of-{len(shards):05}.arrow" for i in range(len(shards))]
    for name, shard in zip(names, shards, strict=True):
        write_arrow(folder / name, shard)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder
