"""Parquet files and folders of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isopix.data.sources.parquet import parquet_files, read_parquet
from tests.peak_memory import peak_memory
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import encoded, table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two training files of 5 and 4 images, one test file of 3."""
    for name, count, seed in (
        ("train-00000-of-00002", 5, 0),
        ("train-00001-of-00002", 4, 5),
        ("test-00000", 3, 50),
    ):
        pq.write_table(
            table(count, names=["a", "b", "c"], seed=seed), tmp_path / f"{name}.parquet", row_group_size=2
        )
    return tmp_path


def test_files_say_their_split_in_their_names(folder: Path) -> None:
    source = read_parquet(folder)
    assert {name: split.num_images for name, split in source.splits.items()} == {"train": 9, "test": 3}
    assert source.classes == ("a", "b", "c")


def test_files_may_lie_in_folders_of_their_split(folder: Path) -> None:
    for file in parquet_files(folder):
        split, number = file.name.split("-", 1)
        target = folder / split / number
        target.parent.mkdir(exist_ok=True)
        file.rename(target)
    assert {name: split.num_images for name, split in read_parquet(folder).splits.items()} == {
        "train": 9,
        "test": 3,
    }


def test_rows_come_in_order_with_their_labels(folder: Path) -> None:
    part = read_parquet(folder).splits["train"]
    assert list(part.images()) == [encoded(i) for i in range(9)]
    assert part.labels is not None
    assert part.labels.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 0]


def test_a_row_is_named_by_its_file(folder: Path) -> None:
    name = read_parquet(folder).splits["train"].image_name
    assert [name(4), name(5)] == [
        f"{folder}/train-00000-of-00002.parquet row 4",
        f"{folder}/train-00001-of-00002.parquet row 0",
    ]


def test_one_file_is_training_data(folder: Path) -> None:
    assert list(read_parquet(folder / "test-00000.parquet").splits) == ["train"]


def test_files_without_a_split_are_left_out_beside_files_with_one(folder: Path) -> None:
    pq.write_table(table(7), folder / "unlabeled-00000.parquet")
    assert read_parquet(folder).splits["train"].num_images == 9


def test_files_without_any_split_are_training_data(tmp_path: Path) -> None:
    pq.write_table(table(7), tmp_path / "part0.parquet")
    assert read_parquet(tmp_path).splits["train"].num_images == 7


def test_a_missing_image_is_an_empty_file(tmp_path: Path) -> None:
    rows = pa.array(
        [{"bytes": None, "path": "a.png"}], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    pq.write_table(pa.table({"image": rows}), tmp_path / "train.parquet")
    assert list(read_parquet(tmp_path).splits["train"].images()) == [b""]


def test_a_folder_without_training_files_is_rejected(folder: Path) -> None:
    for file in folder.glob("train*"):
        file.unlink()
    assert refusal(read_parquet, folder) == f"folder {folder} has no train*.parquet, only test"


def test_a_broken_file_is_named(folder: Path) -> None:
    file = folder / "train-00000-of-00002.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    assert refusal(read_parquet, folder).startswith(f"Parquet file {file} cannot be read: ")


def _bomb(path: Path, rows: int, size: int) -> Path:
    """Rows that all refer to one value of `size` bytes."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([b"x" * size]))
    image = pa.StructArray.from_arrays([values], ["bytes"])
    pq.write_table(
        pa.table({"img": image}),
        path,
        compression="zstd",
        dictionary_pagesize_limit=2**30,
        store_schema=False,
    )
    return path


def test_rows_that_share_a_large_value_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    path = _bomb(tmp_path / "set.parquet", 100, 30 * 2**20)
    with peak_memory() as peak:
        images = read_parquet(path).splits["train"].images()
        assert next(images) == next(images) == b"x" * 30 * 2**20
    assert peak() < 2 * path.stat().st_size + 250 * 2**20


def test_more_than_a_file_of_its_size_can_have_is_refused(tmp_path: Path) -> None:
    path = _bomb(tmp_path / "set.parquet", 10**6, 10)
    size = path.stat().st_size
    assert (
        refusal(read_parquet, path) == f"Parquet file {path} of {size:,} bytes cannot have 1,000,000 images"
    )
    large = _bomb(tmp_path / "large.parquet", 100, 80 * 2**20)
    assert "a column that unpacks to 83,886," in refusal(read_parquet, large)
