"""Every source is read from any image on, and gives the same images as from the start."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from isopix.data.sources.arrow import read_arrow
from isopix.data.sources.base import RawImage, SourceSplit
from isopix.data.sources.codes import read_codes
from isopix.data.sources.digits import Canvas, read_digits
from isopix.data.sources.folder import read_folder
from isopix.data.sources.npz import read_npz
from isopix.data.sources.parquet import read_parquet
from isopix.data.sources.shards import ShardIndex
from isopix.data.sources.webdataset import read_webdataset
from tests.unit.data.arrows import save_to_disk
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import encoded, table
from tests.unit.data.tars import write_tar

PIXELS = np.random.default_rng(0).integers(0, 256, (23, 4, 5), dtype=np.uint8)


def _npz(folder: Path, *, order: str = "C", compressed: bool = False) -> SourceSplit:
    save = np.savez_compressed if compressed else np.savez
    save(folder / "set.npz", x_train=np.asarray(PIXELS, order=order))  # type: ignore[call-overload]
    return read_npz(folder / "set.npz").splits["train"]


def _codes(folder: Path) -> SourceSplit:
    np.save(folder / "a_trX.npy", PIXELS[:, :4, :4].reshape(23, 16) % 4)
    np.save(folder / "kmeans_centers.npy", np.linspace(-1, 1, 12).reshape(4, 3))
    return read_codes(folder, Canvas(4, 4, 1)).splits["train"]


def _folder(folder: Path) -> SourceSplit:
    for i in range(23):
        (folder / f"{i}.png").touch()
    return read_folder(folder).splits["train"]


def _parquet(folder: Path) -> SourceSplit:
    for i, (start, stop) in enumerate(pairwise((0, 9, 9, 10, 23))):
        pq.write_table(table(stop - start, seed=start), folder / f"train-{i}.parquet", row_group_size=4)
    return read_parquet(folder).splits["train"]


def _tar(folder: Path) -> SourceSplit:
    for i, (start, stop) in enumerate(pairwise((0, 9, 10, 23))):
        write_tar(folder / f"train-{i}.tar", [(f"{n}.png", encoded(n)) for n in range(start, stop)])
    return read_webdataset(folder).splits["train"]


def _arrow(folder: Path) -> SourceSplit:
    tables = [table(stop - start, seed=start) for start, stop in pairwise((0, 9, 9, 10, 23))]
    return read_arrow(save_to_disk(folder, *tables)).splits["train"]


SOURCES: dict[str, Callable[[Path], SourceSplit]] = {
    "arrays": lambda _: read_digits().splits["train"],
    "npz": _npz,
    "compressed npz": lambda folder: _npz(folder, compressed=True),
    "Fortran npz": lambda folder: _npz(folder, order="F"),
    "codes": _codes,
    "folder": _folder,
    "Parquet": _parquet,
    "tar": _tar,
    "Arrow": _arrow,
}


def _comparable(images: Iterator[RawImage]) -> list[object]:
    return [image.tolist() if isinstance(image, np.ndarray) else image for image in images]


@pytest.mark.parametrize("name", SOURCES)
def test_a_range_has_the_images_of_the_whole(tmp_path: Path, name: str) -> None:
    split = SOURCES[name](tmp_path)
    whole = _comparable(split.images())
    assert len(whole) == split.num_images >= 23
    count = split.num_images
    for start, stop in [
        (0, 0),
        (0, 1),
        (5, 6),
        (8, 10),
        (3, 21),
        (22, 23),
        (count, count),
        (count - 2, count),
    ]:
        assert _comparable(split.images(start, stop)) == whole[start:stop]
    assert _comparable(split.images(20)) == whole[20:]
    assert refusal(split.images, 2, 1) == f"images 2 to 1 are asked for; there are {count}"
    assert refusal(split.images, 0, count + 1) == f"images 0 to {count + 1} are asked for; there are {count}"


def test_only_the_row_groups_of_a_range_are_read(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    pq.write_table(table(12), path, row_group_size=4)
    split = read_parquet(path).splits["train"]
    group = pq.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    start = group.dictionary_page_offset or group.data_page_offset
    content[start : start + group.total_compressed_size] = bytes(group.total_compressed_size)
    whole = list(split.images(4))
    path.write_bytes(content)
    assert list(split.images(4)) == whole
    assert "cannot be read" in refusal(lambda: list(split.images(3)))


def test_a_range_is_divided_at_the_ends_of_shards() -> None:
    index = ShardIndex([3, 0, 2, 5, 0])
    assert len(index) == 10
    assert [index.row(i) for i in (0, 2, 3, 4, 5, 9)] == [(0, 0), (0, 2), (2, 0), (2, 1), (3, 0), (3, 4)]
    assert list(index.ranges(1, 7)) == [(0, 1, 3), (2, 0, 2), (3, 0, 2)]
    assert list(index.ranges(10, 10)) == list(ShardIndex([]).ranges(0, 0)) == []
