"""Files and folders that are no dataset, are damaged or not clear: each is refused in one line."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded, table, tar_bytes, write_arrow
from tests.unit.data.test_formats import IMAGES, LABELS
from tests.unit.data.test_sources import read, train

Content = dict[str, object]  # what is in the files of a dataset, by their names


def _write(root: Path, content: Content) -> None:
    for name, value in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, dict):
            np.savez(path, **value)
        elif isinstance(value, pa.Table):
            pq.write_table(value, path)
        elif isinstance(value, np.ndarray):
            np.save(path, value)
        else:
            path.write_bytes(value)  # type: ignore[arg-type]


def _metadata(value: str) -> Content:
    return {"set.parquet": table(2).replace_schema_metadata({"huggingface": value})}


def _samples(*members: tuple[str, bytes]) -> Content:
    return {"one.tar": tar_bytes(members)}


REFUSED: list[tuple[Content, str]] = [
    ({"notes.txt": b""}, "has no images; allowed suffixes: .apng "),
    ({"test/a.png": b""}, "has no split train, only test; data.splits=none reads all"),
    ({"train/a.png": b"", "test/notes.txt": b""}, "has no images of test; allowed suffixes: "),
    ({"set.npz": {"x_test": IMAGES}}, "has no split train, only test"),
    ({"set.npz": {"mean": IMAGES}}, "it has no array x_train of images; its arrays: mean"),
    ({"set.npz": {"x_train": IMAGES / 255}}, "x_train is float64 [4, 6, 5, 3]; allowed: [n H W] of uint8"),
    ({"set.npz": {"x_train": IMAGES, "y_train": LABELS[:3]}}, "y_train is int64 [3]; allowed: [4]"),
    ({"set.npz": b"PK"}, "set.npz cannot be read: "),
    ({"set.parquet": table(3).drop_columns("img")}, "no image column of {bytes, path}; its columns: label"),
    (_metadata("{"), "the metadata 'huggingface' of "),
    ({"train-0.parquet": table(3), "train-1.parquet": table(3, image="x")}, "1.parquet has other columns"),
    (_samples(("a.png", b""), ("a.jpg", b"")), "sample 'a' has 2 images: png, jpg; allowed: one"),
    (_samples(("a.png", b""), ("a.json", b"[" * 10**5)), "file 'a.json' cannot be read"),
    ({"train.tar.gz": gzip.compress(b"")}, "it is compressed; decompress it"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_is_no_dataset_is_refused(tmp_path: Path, content: Content, message: str) -> None:
    _write(tmp_path, content)
    single = len(content) == 1 and next(iter(content)).endswith((".npz", ".parquet", ".tar"))
    assert message in refusal(read, tmp_path / next(iter(content)) if single else tmp_path)


@pytest.mark.parametrize(
    ("suffix", "end"),
    [*product(["parquet", "arrow"], [-8, -20, -300]), *product(["tar"], [100, 522, 1024, 2048])],
)
def test_files_that_are_cut_off_are_named(tmp_path: Path, suffix: str, end: int) -> None:
    path, samples = tmp_path / f"set.{suffix}", [(f"{i}.png", encoded(i)) for i in range(3)]
    if suffix == "arrow":
        write_arrow(path, table(8))
    else:
        _write(tmp_path, {path.name: table(8) if suffix == "parquet" else tar_bytes(samples)})
    split = train(path)
    path.write_bytes(path.read_bytes()[:end])
    assert f"file {path} cannot be read: " in refusal(read, path)
    if suffix == "tar":
        assert "cut off while it was read" in refusal(lambda: list(split.images()))


def test_damaged_content_is_named(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "set.arrow", table(4))
    offsets = np.cumsum([0, *(len(encoded(i)) for i in range(4))]).astype("<i4").tobytes()
    assert path.read_bytes().count(offsets) == 1
    outside = offsets[:4] + (2**31 - 1).to_bytes(4, "little") + offsets[8:]
    path.write_bytes(path.read_bytes().replace(offsets, outside))
    assert "cannot be read" in refusal(lambda: list(train(path).images()))
