"""Pictures, and the tables and archives that hold them, for tests."""

import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from isopix.data.store import FileImages

Member = tuple[str, bytes] | tarfile.TarInfo


def whole(*pictures: np.ndarray) -> FileImages:
    heights, widths = (torch.tensor([picture.shape[axis] for picture in pictures]) for axis in (0, 1))
    pixels = np.concatenate([picture.transpose(2, 0, 1).reshape(-1) for picture in pictures])
    areas = 3 * heights * widths
    files, numbers = (torch.from_numpy(pixels),), torch.zeros_like(areas)
    return FileImages(files, numbers, areas.cumsum(0) - areas, heights, widths)


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    down, across, channel = np.ogrid[:height, :width, :3]
    return (127.5 + 127 * np.sin(down / 9 + across / 7 + channel)).astype(np.uint8)


def encoded(seed: int) -> bytes:
    """A PNG of 8x8 noise."""
    return png(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8))


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def table(
    count: int, *, names: Sequence[str] = (), image: str = "img", label: str = "label", seed: int = 0
) -> pa.Table:
    """Images and labels 0, 1, 2, 0, 1, 2, ...; with `names` the label is declared as ClassLabel."""
    images, labels = [encoded(seed + i) for i in range(count)], [i % 3 for i in range(count)]
    return table_of(images, labels, names, image, label)


def table_of(
    images: Sequence[bytes],
    labels: Sequence[int],
    names: Sequence[str] = (),
    image: str = "img",
    label: str = "label",
) -> pa.Table:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = pa.array([{"bytes": each, "path": None} for each in images], kind)
    whole = pa.table({image: rows, label: pa.array(labels, pa.int64())})
    features = {image: {"_type": "Image"}, label: {"_type": "ClassLabel", "names": list(names)}}
    if not names:
        return whole
    return whole.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write_arrow(path: Path, table: pa.Table, rows_per_batch: int = 4) -> Path:
    """Write an Arrow stream, as `datasets.ArrowWriter` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, rows_per_batch)
    return path


def save_to_disk(folder: Path, *shards: pa.Table) -> Path:
    """Write the files of `Dataset.save_to_disk`."""
    names = [f"data-{i:05}-of-{len(shards):05}.arrow" for i in range(len(shards))]
    for name, shard in zip(names, shards, strict=True):
        write_arrow(folder / name, shard)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def write_tar(path: Path, members: Iterable[Member]) -> Path:
    """Write an archive of files, and of links and folders, which are given as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_bytes(members))
    return path


def tar_bytes(members: Iterable[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            made = tarfile.TarInfo(member[0])
            made.size = len(member[1])
            archive.addfile(made, io.BytesIO(member[1]))
    return buffer.getvalue()


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A link, folder or device."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made
