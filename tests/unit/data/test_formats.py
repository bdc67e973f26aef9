"""What formats have of their own: splits and classes in names, labels beside images, other libraries."""

import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded, entry, save_to_disk, table, write_arrow, write_tar
from tests.unit.data.test_sources import labels_of, read, train

IMAGES = np.arange(4 * 6 * 5 * 3, dtype=np.uint8).reshape(4, 6, 5, 3)
LABELS = np.array([0, 1, 1, 0])


def test_sub_folders_are_classes_and_their_first_files_come_first(tmp_path: Path, draw: Draw) -> None:
    for name in ("dog/2.png", "dog/1.JPG", "cat/3.png", "cat/deep/1.png", "cat/9.png", "cat/.hidden.png"):
        draw(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").touch()
    (tmp_path / "cat" / "loop").symlink_to(tmp_path)
    files = [each for each in train(tmp_path).images() if isinstance(each, Path)]
    names = [each.relative_to(tmp_path).as_posix() for each in files]
    assert names == ["cat/3.png", "dog/1.JPG", "cat/9.png", "dog/2.png", "cat/deep/1.png"]
    assert labels_of(train(tmp_path)) == [0, 1, 0, 1, 0]
    assert read(tmp_path).classes == ("cat", "dog")


def test_a_flat_folder_and_one_image_have_no_labels(tmp_path: Path, draw: Draw) -> None:
    paths = [draw(tmp_path / f"{name}.PNG") for name in "cab"]
    assert list(train(tmp_path).images()) == sorted(paths)
    assert list(train(paths[0]).images()) == paths[:1]
    assert read(tmp_path).classes == read(paths[0]).classes == ()


@pytest.mark.parametrize(
    "images",
    [IMAGES[..., 0], IMAGES[..., :1], IMAGES[..., 0].astype(np.uint16) * 257, IMAGES[..., [0, 1, 2, 0]]],
)
def test_arrays_of_every_shape_are_read_as_numpy_reads_them(tmp_path: Path, images: np.ndarray) -> None:
    arrays = {"x_train": images, "y_train": LABELS[:, None], "x_test": images, "y_test": np.full(4, -1)}
    np.savez(tmp_path / "set.npz", **arrays)
    rows = [np.asarray(each) for each in train(tmp_path / "set.npz").images()]
    assert np.array_equal(np.stack(rows), images.reshape(np.shape(rows)))
    assert labels_of(train(tmp_path / "set.npz")) == LABELS.tolist()
    np.savez(tmp_path / "set.npz", x_train=images, y_train=["dog", "cat", "cat", "dog"])
    assert read(tmp_path / "set.npz").classes == ("cat", "dog")


def test_images_without_bytes_are_files_beside_an_arrow_file_alone(tmp_path: Path, draw: Draw) -> None:
    picture = draw(tmp_path / "pictures" / "1.png")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": None, "path": path} for path in (str(picture), "../pictures/1.png", None)]
    content = pa.table({"image": pa.array(rows, kind)})
    path = write_arrow(tmp_path / "set" / "cache-1.arrow", content)
    source = read(path)
    images = list(source.splits["train"].images())
    assert [each.resolve() for each in images if isinstance(each, Path)] == [picture, picture]
    assert images[2] == b""
    draw(picture, seed=9)
    assert read(path).content_hash != source.content_hash
    pq.write_table(content, tmp_path / "set.parquet")
    assert list(train(tmp_path / "set.parquet").images()) == [b"", b"", b""]


def test_a_saved_dictionary_has_its_splits_in_folders(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "train", table(5, names="abc"), table(4, names="abc"))
    save_to_disk(tmp_path / "test", table(3, names="abc"))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "other", "test"]}')
    splits = read(tmp_path).splits
    assert [(name, split.num_images) for name, split in splits.items()] == [("test", 3), ("train", 9)]
    assert splits["train"].image_name(5) == f"{tmp_path}/train/data-00001-of-00002.arrow row 0"
    state = tmp_path / "train" / "state.json"
    state.write_text(json.dumps({"_data_files": [{"filename": "../test/data-00000-of-00001.arrow"}]}))
    assert "train/data-00000-of-00001.arrow" in refusal(read, tmp_path)
    state.write_text(json.dumps({"_data_files": [], "_indices_data_files": ["a"]}))
    assert refusal(read, tmp_path).startswith(f"{state} cannot be read: it has an order of rows")


def test_what_the_library_saves_is_read_as_it_reads_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the optional library `datasets` is not installed")
    made = datasets.Dataset(table(30, names="abc")).shuffle(seed=0)
    both = datasets.DatasetDict({"train": made, "test": made.select([7, 3])})
    both.save_to_disk(tmp_path / "set", num_shards={"train": 4, "test": 1})
    loaded = datasets.load_from_disk(tmp_path / "set").cast_column("img", datasets.Image(decode=False))
    for name, split in read(tmp_path / "set").splits.items():
        assert list(split.images()) == [row["img"]["bytes"] for row in loaded[name]]
        assert labels_of(split) == loaded[name]["label"][:]


def test_datasets_of_the_hub_are_read_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the `datasets` library."""
    asked = []
    files = [write_arrow(tmp_path / f"{i}.arrow", table(10, names="abc", seed=10 * i)) for i in range(2)]

    def load_dataset(repository: str, *, split: str, keep_in_memory: bool) -> SimpleNamespace:
        if repository.endswith("stl10"):
            raise ConnectionError("Couldn't reach the Hub\nTraceback: many lines")
        asked.append((repository, split))
        return SimpleNamespace(cache_files=[{"filename": str(each)} for each in files])

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    source = read("imagenet-1k")
    assert list(source.splits["train"].images()) == [encoded(i) for i in range(20)]
    assert (source.classes, source.holdout, source.fixed) == (tuple("abc"), 0.04, True)
    assert asked == [("ILSVRC/imagenet-1k", "train"), ("ILSVRC/imagenet-1k", "validation")]
    write_arrow(files[1], table(10, names="abc", seed=99))
    assert read("imagenet-1k").content_hash != source.content_hash
    assert "Hub (Couldn't reach the Hub Traceback: many lines); give" in refusal(
        read, "stl10", kind=RuntimeError
    )
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "it needs pip install -e '.[hub]'); give" in refusal(read, "cifar10", kind=RuntimeError)


def test_an_integer_beside_an_image_is_its_label(tmp_path: Path) -> None:
    assert labels_of(train(write_tar(tmp_path / "one.tar", [("a.jpg", b""), ("a.cls", b" 007\n")]))) == [7]
    for content in (b'{"label": [1]}', b"[1]", b'{"label": 1.5}'):
        split = train(write_tar(tmp_path / "one.tar", [("a.jpg", b""), ("a.json", content)]))
        assert split.labels is None


def test_what_is_no_file_of_a_sample_is_left_out(tmp_path: Path) -> None:
    links = [entry("b.png", tarfile.SYMTYPE, "/etc/passwd"), entry("c.png", tarfile.LNKTYPE, "a.png")]
    others = [("__info__.json", b"not JSON"), ("._a.png", b"resource fork"), ("README.txt", b""), ("no", b"")]
    images = [("../../a.png", encoded(1)), ("a.mask.png", b"mask"), ("a.PNG", encoded(0)), ("b.json", b"{}")]
    split = train(write_tar(tmp_path / "one.tar", [entry("set", tarfile.DIRTYPE), *links, *others, *images]))
    assert list(split.images()) == [encoded(1), encoded(0)]
    labels = [("a.png", encoded(0)), ("a.cls", b"0"), ("b.cls", b"1")]
    split = train(write_tar(tmp_path / "one.tar", labels))
    assert list(split.images()) == [encoded(0), b""]  # a label alone is an image that cannot be read
    assert [each.name for each in tmp_path.iterdir()] == ["one.tar"]
