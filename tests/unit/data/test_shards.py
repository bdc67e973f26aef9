"""Tables and archives of many images: splits, labels, and files that are refused in one line."""

import gzip
import json
import shutil
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
from tests.unit.data.shards import Member, encoded, entry, save_to_disk, table, write_arrow, write_tar
from tests.unit.data.test_sources import labels_of, read, train


def test_parquet_and_tar_files_say_their_split_in_their_names_or_folders(tmp_path: Path) -> None:
    for name in ("train-0", "test/0", "unlabeled-0"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(3), tmp_path / "p" / f"{name}.parquet")
        write_tar(tmp_path / "t" / f"{name}.tar", [("a.png", encoded(0))])
    for kind, suffix in (("p", "parquet"), ("t", "tar")):
        folder = tmp_path / kind
        assert list(read(folder).splits) == ["test", "train"]
        assert list(read(folder / f"unlabeled-0.{suffix}").splits) == ["train"]
        (folder / f"train-0.{suffix}").unlink()
        assert refusal(read, folder) == f"folder {folder} has no train*.{suffix}, only test"
        shutil.rmtree(folder / "test")
        assert list(read(folder).splits) == ["train"]


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        (table(3, image="photo", label="species"), "species"),
        (table(3, label="coarse").append_column("fine_label", pa.array([0, 1, 2])), "fine_label"),
        (table(3, label="width").append_column("height", pa.array([1, 2, 3])), None),
        (table(3, label="kind", names="abc").append_column("label", pa.array([5, 6, 7])), "kind"),
    ],
)
def test_the_label_is_a_class_label_or_has_its_name_or_is_the_only_integer(
    tmp_path: Path, columns: pa.Table, label: str | None
) -> None:
    pq.write_table(columns, tmp_path / "set.parquet")
    found = train(tmp_path / "set.parquet").labels
    assert (None if found is None else found.tolist()) == (columns[label].to_pylist() if label else None)


def test_images_without_bytes_are_files_beside_an_arrow_file_alone(tmp_path: Path, draw: Draw) -> None:
    picture = draw(tmp_path / "pictures" / "1.png")
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [{"bytes": None, "path": path} for path in (str(picture), "../pictures/1.png", None)]
    content = pa.table({"image": pa.array(rows, kind)})
    path = write_arrow(tmp_path / "set" / "x-train.arrow", content)
    source = read(path)
    images = list(source.splits["train"].images())
    assert [each.resolve() for each in images if isinstance(each, Path)] == [picture, picture]
    assert images[2] == b""
    draw(picture, seed=9)
    assert read(path).content_hash != source.content_hash
    pq.write_table(content, tmp_path / "set.parquet")
    assert list(train(tmp_path / "set.parquet").images()) == [b"", b"", b""]


def test_images_beside_arrow_and_tar_files_are_a_folder_of_images(classes: Path) -> None:
    write_arrow(classes / "x-train.arrow", table(3))
    write_tar(classes / "train.tar", [("a.png", encoded(0))])
    assert train(classes).num_images == 40


def test_a_saved_dictionary_has_its_splits_in_folders(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "train", table(5, names="abc"), table(4, names="abc"))
    save_to_disk(tmp_path / "test", table(3, names="abc"))
    dictionary = tmp_path / "dataset_dict.json"
    dictionary.write_text('{"splits": ["train", "other", "test"]}')
    splits = read(tmp_path).splits
    assert [(name, split.num_images) for name, split in splits.items()] == [("train", 9), ("test", 3)]
    assert splits["train"].image_name(5) == f"{tmp_path}/train/data-00001-of-00002.arrow row 0"
    state = tmp_path / "train" / "state.json"
    for wrong in ({"_data_files": [], "_indices_data_files": ["a"]}, {"_data_files": [5]}, {}):
        state.write_text(json.dumps(wrong))
        assert refusal(read, tmp_path).startswith(f"{state} cannot be read: ")
    dictionary.write_text('{"splits": ["test"]}')
    assert refusal(read, tmp_path) == f"folder {tmp_path} has no split train, only test"


def _metadata(value: str) -> pa.Table:
    return table(2).replace_schema_metadata({"huggingface": value})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (table(3).drop_columns("img"), "has no image column of {bytes, path}; its columns: label"),
        (_metadata("{"), "the metadata 'huggingface' of "),
        (_metadata('{"info": 3}'), "the metadata 'huggingface' of "),
        (
            _metadata('{"info": {"features": {"label": {"_type": "ClassLabel", "names": [1]}}}}'),
            "the class names of column 'label' of ",
        ),
        (
            table(2).set_column(1, "label", pa.array([0, 2**64 - 1], pa.uint64())),
            "column 'label' of labels cannot be read",
        ),
    ],
)
def test_tables_that_are_no_images_are_refused(tmp_path: Path, content: pa.Table, message: str) -> None:
    pq.write_table(content, tmp_path / "set.parquet")
    assert message in refusal(read, tmp_path / "set.parquet")


def test_shards_of_other_columns_are_refused(tmp_path: Path) -> None:
    pq.write_table(table(3), tmp_path / "train-0.parquet")
    pq.write_table(table(3, image="picture"), tmp_path / "train-1.parquet")
    assert "train-1.parquet has other columns" in refusal(read, tmp_path)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("cut", [8, 20, 300])
def test_tables_that_are_cut_off_are_named(tmp_path: Path, suffix: str, cut: int) -> None:
    path = tmp_path / f"set.{suffix}"
    if suffix == "arrow":
        write_arrow(path, table(8))
    else:
        pq.write_table(table(8), path)
    path.write_bytes(path.read_bytes()[:-cut])
    assert f"file {path} cannot be read: " in refusal(read, path)


def test_offsets_outside_of_an_arrow_file_are_refused(tmp_path: Path) -> None:
    path = write_arrow(tmp_path / "set.arrow", table(4))
    content = path.read_bytes()
    offsets = np.cumsum([0, *(len(encoded(i)) for i in range(4))]).astype("<i4").tobytes()
    assert content.count(offsets) == 1
    for place in (4, 16):
        wrong = offsets[:place] + (2**31 - 1).to_bytes(4, "little") + offsets[place + 4 :]
        path.write_bytes(content.replace(offsets, wrong))
        assert "cannot be read" in refusal(lambda: list(train(path).images()))


def test_what_the_library_saves_is_read_as_it_reads_it(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the optional library `datasets` is not installed")
    features = datasets.Features(
        {"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])}
    )
    rows = {
        "img": [{"bytes": encoded(i), "path": None} for i in range(30)],
        "label": [i % 3 for i in range(30)],
    }
    made = datasets.Dataset.from_dict(rows, features=features).shuffle(seed=0)
    both = datasets.DatasetDict({"train": made, "test": made.select([7, 3])})
    both.save_to_disk(tmp_path / "set", num_shards={"train": 4, "test": 1})
    loaded = datasets.load_from_disk(tmp_path / "set").cast_column("img", datasets.Image(decode=False))
    for name, split in read(tmp_path / "set").splits.items():
        assert list(split.images()) == [row["img"]["bytes"] for row in loaded[name]]
        assert labels_of(split) == loaded[name]["label"][:]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A stand-in for the `datasets` library; the list holds what was asked of it."""
    asked = []
    files = [write_arrow(tmp_path / f"data-{i}.arrow", table(10, names="abc", seed=10 * i)) for i in range(2)]

    def load_dataset(repository: str, *, split: str, keep_in_memory: bool) -> SimpleNamespace:
        if repository.endswith("stl10"):
            raise ConnectionError("Couldn't reach the Hub\nTraceback: many lines")
        asked.append((repository, split))
        return SimpleNamespace(cache_files=[{"filename": str(each)} for each in files])

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


def test_datasets_of_the_hub_are_read_from_its_cache(hub: list[tuple[str, str]], tmp_path: Path) -> None:
    source = read("imagenet-1k")
    assert list(source.splits["train"].images()) == [encoded(i) for i in range(20)]
    assert (source.name, source.classes, source.holdout, source.fixed) == (
        "imagenet-1k",
        tuple("abc"),
        0.04,
        True,
    )
    assert hub == [("ILSVRC/imagenet-1k", "train"), ("ILSVRC/imagenet-1k", "validation")]
    write_arrow(tmp_path / "data-1.arrow", table(10, seed=99))
    assert read("imagenet-1k").content_hash != source.content_hash


def test_a_missing_library_or_network_ends_in_one_line(
    hub: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    message = refusal(read, "stl10", kind=RuntimeError)
    assert "no network or no access (ConnectionError: Couldn't reach the Hub); give a folder" in message
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'isopix[hub]'; or give" in refusal(read, "cifar10", kind=RuntimeError)


# tar


def one(tmp_path: Path, *members: Member) -> Path:
    return write_tar(tmp_path / "one.tar", members)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_and_names_of_other_letters_are_read(tmp_path: Path, format: int) -> None:
    names = ["é/" + "a" * 90, "b/" * 40 + "c", *(["x" * 250] if format != tarfile.USTAR_FORMAT else [])]
    members: list[Member] = [(f"{name}.png", encoded(i)) for i, name in enumerate(names)]
    split = train(write_tar(tmp_path / "one.tar", members, format))
    assert list(split.images()) == [encoded(i) for i in range(len(names))]
    assert [split.image_name(i) for i in range(len(names))] == [f"{tmp_path}/one.tar/{n}.png" for n in names]


@pytest.mark.parametrize(
    ("content", "label"),
    [
        (b'{"label": 2, "width": 5}', [2]),
        (b'{"cls": 3}', [3]),
        (b"{}", None),
        (b'{"label": "cat"}', None),
        (b"[1]", None),
        (b'{"label": true}', None),
    ],
)
def test_an_integer_in_json_is_the_label(tmp_path: Path, content: bytes, label: list[int] | None) -> None:
    found = train(one(tmp_path, ("a.jpg", b""), ("a.json", content))).labels
    assert (None if found is None else found.tolist()) == label


def test_what_is_no_file_of_a_sample_is_left_out(tmp_path: Path) -> None:
    path = one(
        tmp_path,
        entry("set", tarfile.DIRTYPE),
        entry("b.png", tarfile.SYMTYPE, "/etc/passwd"),
        entry("c.png", tarfile.LNKTYPE, "a.png"),
        ("__info__.json", b"not JSON"),
        ("._a.png", b"resource fork"),
        ("README.txt", b"pictures"),
        ("../../a.png", encoded(1)),
        ("a.mask.png", b"mask"),
        ("a.PNG", encoded(0)),
        ("noextension", b""),
        ("b.cls", b"1"),
    )
    assert "no label for 2 of 3 images" in refusal(read, path)
    one(tmp_path, *[("a.png", encoded(0)), ("a.cls", b"0"), ("b.cls", b"1")])
    split = train(path)
    assert list(split.images()) == [encoded(0), b""]  # a label alone is an image that cannot be read
    assert [each.name for each in tmp_path.iterdir()] == ["one.tar"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.png", b""), ("a.jpg", b"")], "sample 'a' has 2 images: png, jpg; allowed: one for each name"),
        ([("a.png", b""), ("a.png", b"")], "file 'a.png' is there twice in sample 'a'"),
        ([("a.png", b""), ("a.cls", b"cat")], "file 'a.cls' is not an integer"),
        ([("a.png", b""), ("a.json", b"[" * 10**5)], "file 'a.json' is not JSON"),
        ([("a.txt", b"")], "has no images; allowed suffixes: .jpg"),
        ([entry("a.png", tarfile.GNUTYPE_SPARSE)], "is sparse; pack it without --sparse"),
    ],
)
def test_samples_that_are_not_clear_are_refused(tmp_path: Path, members: list[Member], message: str) -> None:
    assert message in refusal(read, one(tmp_path, *members))


def test_damaged_and_compressed_archives_are_refused(tmp_path: Path) -> None:
    path = one(tmp_path, *[(f"{i}.png", encoded(i)) for i in range(3)])
    content, split = path.read_bytes(), train(path)
    for end in (100, 512 + 10, 1024, 2048):
        path.write_bytes(content[:end])
        assert refusal(read, path).startswith(f"tar file {path} cannot be read: ")
    assert "cut off while it was read" in refusal(lambda: list(split.images()))
    path.write_bytes(content.replace(b"1.png", b"2.png", 1))  # another checksum
    assert "cut off or damaged" in refusal(read, path)
    packed = tmp_path / "train.tar.gz"
    packed.write_bytes(gzip.compress(content))
    assert refusal(read, packed).endswith(
        "it is compressed, so that no image can be read by itself; unpack it (gunzip)"
    )
