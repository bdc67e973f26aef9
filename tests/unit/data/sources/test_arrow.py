"""Folders that the `datasets` library saves, and its Arrow files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from isopix.data.sources.arrow import read_arrow
from isopix.data.sources.base import Source
from isopix.data.sources.digits import Canvas
from isopix.data.sources.read_source import find_reader
from tests.unit.data.arrows import save_to_disk, write_arrow
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import encoded, table

NAMES = ["a", "b", "c"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A DatasetDict: 9 training images in two files, and 3 test images."""
    root = tmp_path / "set"
    save_to_disk(root / "train", table(5, names=NAMES), table(4, names=NAMES, seed=5))
    save_to_disk(root / "test", table(3, names=NAMES, seed=50))
    (root / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    return root


def _read(path: Path) -> Source:
    return find_reader(str(path), Canvas(8, 8, 1))()


def _paths(*paths: str | None) -> pa.Table:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table({"image": pa.array([{"bytes": None, "path": path} for path in paths], kind)})


def test_a_saved_dataset_is_read_as_it_is(folder: Path) -> None:
    source = _read(folder)
    assert {name: split.num_images for name, split in source.splits.items()} == {"train": 9, "test": 3}
    assert source.classes == ("a", "b", "c")
    train = source.splits["train"]
    assert list(train.images()) == [encoded(i) for i in range(9)]
    assert train.labels is not None
    assert train.labels.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 0]
    assert train.image_name(5) == f"{folder}/train/data-00001-of-00002.arrow row 0"
    assert list(_read(folder / "train").splits) == ["train"]


def test_files_in_the_cache_have_the_split_in_their_names(tmp_path: Path) -> None:
    for name, count in (("train-00000-of-00002", 5), ("train-00001-of-00002", 4), ("test", 3)):
        write_arrow(tmp_path / f"imagenet-1k-{name}.arrow", table(count))
    write_arrow(tmp_path / "cache-0123456789abcdef.arrow", table(9))
    assert {name: split.num_images for name, split in _read(tmp_path).splits.items()} == {
        "train": 9,
        "test": 3,
    }
    assert _read(tmp_path / "imagenet-1k-test.arrow").splits["train"].num_images == 3


def test_images_without_bytes_are_files_and_belong_to_the_hash(tmp_path: Path, draw: Draw) -> None:
    draw(tmp_path / "pictures" / "1.png")
    absolute = str(tmp_path / "pictures" / "1.png")
    path = write_arrow(tmp_path / "set" / "x-train.arrow", _paths(absolute, "../pictures/1.png", None))
    source = _read(path)
    images = list(source.splits["train"].images())
    assert [image.read_bytes() for image in images[:2] if isinstance(image, Path)] == 2 * [
        (tmp_path / "pictures" / "1.png").read_bytes()
    ]
    assert images[2] == b""
    draw(tmp_path / "pictures" / "1.png", seed=9)
    assert _read(path).content_hash != source.content_hash


def test_images_beside_arrow_files_are_a_folder_of_images(tmp_path: Path, classes: Path) -> None:
    write_arrow(classes / "x-train.arrow", table(3))
    assert _read(classes).splits["train"].num_images == 40


def test_states_that_are_not_of_datasets_are_refused(folder: Path) -> None:
    state = folder / "train" / "state.json"
    order = {"_data_files": [{"filename": "a.arrow"}], "_indices_data_files": [{"filename": "indices.arrow"}]}
    state.write_text(json.dumps(order))
    assert refusal(_read, folder) == (
        f"{state} has an order of rows (of datasets 1); save it again with a current version"
    )
    for files in (None, [], ["a"], [{"filename": "../a.arrow"}], [{"filename": "/a"}], [{"filename": 5}]):
        state.write_text(json.dumps({"_data_files": files}))
        assert refusal(_read, folder) == f"{state} has no list of the names of files in this folder"
    state.unlink()
    assert refusal(_read, folder).startswith(f"{state} cannot be read: ")
    (folder / "dataset_dict.json").write_text('{"splits": ["test"]}')
    assert refusal(_read, folder) == f"folder {folder} has no split train, only test"


def test_files_that_are_not_as_datasets_writes_them_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "set-train.arrow"
    write_arrow(path, table(8), compression="zstd")
    start = f"Arrow file {path} cannot be read: "
    assert (
        refusal(_read, path) == start + "it is compressed; write it without compression, as `datasets` does"
    )
    content = write_arrow(path, table(8)).read_bytes()
    path.write_bytes(content[:-8])
    assert refusal(_read, path) == start + "it is cut off: it has no end of stream"
    path.write_bytes(content[:-100])
    assert refusal(_read, path).startswith(start)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table(8).schema) as stream:
        stream.write_table(table(8))
    assert refusal(_read, path).startswith(start)
    write_arrow(tmp_path / "set-test.arrow", table(3, image="picture"))
    write_arrow(path, table(8))
    assert refusal(_read, tmp_path).startswith(f"Arrow file {tmp_path}/set-test.arrow has no column 'img' of")


def test_offsets_outside_of_the_file_are_refused(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "set.arrow", table(4))
    content = path.read_bytes()
    offsets = np.cumsum([0, *(len(encoded(i)) for i in range(4))]).astype("<i4").tobytes()
    assert content.count(offsets) == 1
    for place in (4, 16):
        wrong = offsets[:place] + (2**31 - 1).to_bytes(4, "little") + offsets[place + 4 :]
        path.write_bytes(content.replace(offsets, wrong))
        assert "cannot be read" in refusal(lambda: list(_read(path).splits["train"].images()))


def test_what_the_library_saves_is_read_as_it_reads_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the optional library `datasets` is not installed")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)})
    images = [{"bytes": encoded(i), "path": None} for i in range(30)]
    rows = {"img": images, "label": [i % 3 for i in range(30)]}
    made = datasets.Dataset.from_dict(rows, features=features).shuffle(seed=0)
    datasets.DatasetDict({"train": made, "test": made.select([7, 3])}).save_to_disk(
        tmp_path / "set", num_shards={"train": 4, "test": 1}
    )
    source = read_arrow(tmp_path / "set")
    loaded = datasets.load_from_disk(tmp_path / "set").cast_column("img", datasets.Image(decode=False))
    for name, split in source.splits.items():
        assert list(split.images()) == [row["img"]["bytes"] for row in loaded[name]]
        assert split.labels is not None
        assert split.labels.tolist() == loaded[name]["label"][:]
    assert source.classes == tuple(NAMES)
