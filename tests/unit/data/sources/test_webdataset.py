"""WebDataset's tar files and folders of them."""

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from isopix.data.sources.base import Source
from isopix.data.sources.digits import Canvas
from isopix.data.sources.read_source import find_reader
from isopix.data.sources.webdataset import read_webdataset
from tests.unit.data.conftest import Draw
from tests.unit.data.refusal import refusal
from tests.unit.data.tables import encoded
from tests.unit.data.tars import Member, entry, write_tar

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def sample(number: int) -> list[Member]:
    return [(f"{number:04}.png", encoded(number)), (f"{number:04}.cls", str(number % 3).encode())]


def samples(start: int, stop: int) -> list[Member]:
    return [member for number in range(start, stop) for member in sample(number)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two training files of 5 and 4 images, one validation file of 3, and the names of classes."""
    for name, start, stop in (("train-000000", 0, 5), ("train-000001", 5, 9), ("val-000000", 9, 12)):
        write_tar(tmp_path / "set" / f"{name}.tar", samples(start, stop))
    (tmp_path / "set" / "classnames.txt").write_text("cat\ndog\ncow\n")
    return tmp_path / "set"


def _read(path: Path) -> Source:
    return find_reader(str(path), Canvas(8, 8, 1))()


def _one(tmp_path: Path, *members: Member) -> Path:
    return write_tar(tmp_path / "one.tar", members)


def _refusal(tmp_path: Path, *members: Member) -> str:
    path = _one(tmp_path, *members)
    return refusal(_read, path).removeprefix(f"tar file {path} cannot be read: ")


def test_images_and_labels_come_in_the_order_of_the_shards(folder: Path) -> None:
    source = _read(folder)
    assert {name: split.num_images for name, split in source.splits.items()} == {"train": 9, "validation": 3}
    train = source.splits["train"]
    assert list(train.images()) == [encoded(i) for i in range(9)]
    assert list(train.images(4, 6)) == [encoded(4), encoded(5)]
    assert train.labels is not None
    assert train.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert source.classes == ("cat", "dog", "cow")
    assert train.image_name(6) == f"{folder}/train-000001.tar/0006.png"


def test_one_file_and_folders_named_by_a_split_are_read(folder: Path) -> None:
    assert list(_read(folder / "val-000000.tar").splits) == ["train"]
    for file in folder.glob("*.tar"):
        target = folder / file.name.split("-")[0] / "0.tar"
        target.parent.mkdir(exist_ok=True)
        file.rename(target)
    assert list(_read(folder).splits) == ["train", "validation"]


def test_the_hash_changes_with_shards_and_class_names(folder: Path) -> None:
    hashes = {_read(folder).content_hash}
    (folder / "classnames.txt").write_text("a\nb\nc\n")
    hashes.add(_read(folder).content_hash)
    write_tar(folder / "train-000001.tar", samples(6, 10))
    hashes.add(_read(folder).content_hash)
    assert len(hashes) == 3


@pytest.mark.parametrize("format", FORMATS)
def test_long_names_and_names_of_other_letters_are_read(tmp_path: Path, format: int) -> None:
    names = ["é/" + "a" * 90, "b/" * 40 + "c", *(["x" * 250] if format != tarfile.USTAR_FORMAT else [])]
    members: list[Member] = [(f"{name}.png", encoded(i)) for i, name in enumerate(names)]
    split = _read(write_tar(tmp_path / "one.tar", members, format)).splits["train"]
    assert list(split.images()) == [encoded(i) for i in range(len(names))]
    assert [split.image_name(i) for i in range(len(names))] == [f"{tmp_path}/one.tar/{n}.png" for n in names]


@pytest.mark.parametrize("field", ["label", "cls"])
def test_labels_may_be_in_json(tmp_path: Path, field: str) -> None:
    members = [("a.jpg", b""), ("a.json", json.dumps({field: 2, "width": 5}).encode()), ("a.txt", b"a cat")]
    labels = _read(_one(tmp_path, *members)).splits["train"].labels
    assert labels is not None
    assert labels.tolist() == [2]


@pytest.mark.parametrize("content", [b"{}", b'{"label": "cat"}', b"[1]", b'{"label": true}'])
def test_json_without_an_integer_is_no_label(tmp_path: Path, content: bytes) -> None:
    assert _read(_one(tmp_path, ("a.jpg", b""), ("a.json", content))).splits["train"].labels is None


def test_what_is_no_file_of_a_sample_is_left_out(tmp_path: Path) -> None:
    path = _one(
        tmp_path,
        entry("set", tarfile.DIRTYPE),
        entry("b.png", tarfile.SYMTYPE, "/etc/passwd"),
        entry("c.png", tarfile.LNKTYPE, "a.png"),
        entry("d.png", tarfile.CHRTYPE),
        ("__info__.json", b"not JSON"),
        ("._a.png", b"resource fork"),
        ("README.txt", b"pictures"),
        ("../../a.png", encoded(1)),
        ("noextension", b""),
    )
    split = _read(path).splits["train"]
    assert list(split.images()) == [encoded(1)]
    assert [each.name for each in tmp_path.iterdir()] == ["one.tar"]


def test_a_sample_with_a_label_alone_is_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    split = _read(_one(tmp_path, *sample(0), ("b.cls", b"1"))).splits["train"]
    assert list(split.images()) == [encoded(0), b""]
    assert split.image_name(1) == f"{tmp_path}/one.tar/b"


def test_the_image_of_one_extension_is_taken(tmp_path: Path) -> None:
    members = [("a.mask.png", b"mask"), ("a.PNG", encoded(0)), ("b.img.png", encoded(1))]
    assert list(_read(_one(tmp_path, *members)).splits["train"].images()) == [encoded(0), encoded(1)]


def test_samples_that_are_not_clear_are_refused(tmp_path: Path) -> None:
    assert _refusal(tmp_path, ("a.png", b""), ("a.jpg", b"")) == (
        "sample 'a' has 2 images: png, jpg; allowed: one for each name up to its first dot"
    )
    assert _refusal(tmp_path, ("a.png", b""), ("a.png", b"")) == "file 'a.png' is there twice in sample 'a'"
    assert (
        _refusal(tmp_path, ("a.png", b""), ("a.cls", b"cat")) == "file 'a.cls' is not an integer of 64 bits"
    )
    assert _refusal(tmp_path, ("a.cls", b"9" * 19), ("a.png", b"")).startswith(
        "file 'a.cls' has a label above"
    )
    assert _refusal(tmp_path, ("a.png", b""), ("a.json", b"[" * 10**5)) == "file 'a.json' is not JSON"
    assert "has no label for 1 of 2 images" in _refusal(tmp_path, *sample(0), ("b.png", b""))
    assert "has no images; allowed suffixes: .jpg" in _refusal(tmp_path, ("a.txt", b""))


def test_damaged_and_compressed_archives_are_refused(tmp_path: Path, folder: Path) -> None:
    path = folder / "train-000000.tar"
    content = path.read_bytes()
    for end in (100, 512 + 10, 2 * 512):
        path.write_bytes(content[:end])
        assert refusal(_read, folder).startswith(f"tar file {path} cannot be read: ")
    path.write_bytes(content.replace(b"0000.png", b"0001.png", 1))
    assert refusal(_read, folder).endswith("there is no header of a file at byte 0")
    packed = tmp_path / "packed" / "train.tar.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(content))
    for given in (packed, packed.parent):
        assert refusal(_read, given) == (
            f"tar file {packed} cannot be read: it is compressed, so that no image can be read by itself; "
            "unpack it (gunzip)"
        )


def test_sparse_files_are_refused(tmp_path: Path) -> None:
    assert _refusal(tmp_path, entry("a.png", tarfile.GNUTYPE_SPARSE)) == (
        "file 'a.png' is sparse; pack it without --sparse"
    )


def test_a_shard_that_is_cut_off_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = _one(tmp_path, *sample(0))
    split = read_webdataset(path).splits["train"]
    path.write_bytes(path.read_bytes()[:600])
    assert refusal(lambda: list(split.images())) == (
        f"tar file {path} cannot be read: it was cut off while it was read"
    )


def test_images_beside_a_tar_file_are_a_folder_of_images(folder: Path, draw: Draw) -> None:
    draw(folder / "train" / "cat" / "1.png")
    assert _read(folder).splits["train"].num_images == 1


def test_a_folder_without_training_files_is_refused(folder: Path) -> None:
    for file in folder.glob("train*"):
        file.unlink()
    assert refusal(_read, folder) == f"folder {folder} has no train*.tar, only validation"
