"""Every source gives the same pixels and labels, from any image on, and a hash of its content."""

import os
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from isopix.data.dataset import DataConfig
from isopix.data.decode import RawImage, decode_image, read_content
from isopix.data.sources.base import Source, SourceSplit, SplitName, find_reader, joined, with_class_names
from isopix.data.sources.labels import MAX_CLASSES
from isopix.storage import provenance
from isopix.storage.provenance import hash_tree
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import png, save_to_disk, table_of, write_arrow, write_tar

PIXELS = np.random.default_rng(0).integers(0, 256, (23, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(23) % 3
NAMES = ["a", "b", "c"]
SHARDS = tuple(pairwise((0, 9, 9, 10, 23)))  # one is empty


def _folder(root: Path) -> Path:
    for i, pixels in enumerate(PIXELS):
        path = root / NAMES[i % 3] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(pixels))
    return root


def _npz(root: Path, order: str = "C", save: Callable[..., None] = np.savez) -> Path:
    save(root / "set.npz", x_train=np.asarray(PIXELS, order=order), y_train=LABELS, class_names=NAMES)  # type: ignore[call-overload]
    return root / "set.npz"


def _tables(root: Path) -> list:
    return [table_of(list(map(png, PIXELS[a:b])), LABELS[a:b].tolist(), NAMES) for a, b in SHARDS]


def _parquet(root: Path) -> Path:
    for i, table in enumerate(_tables(root)):
        pq.write_table(table, root / f"train-{i}.parquet", row_group_size=4)
    return root


def _arrow_cache(root: Path) -> Path:
    for i, table in enumerate(_tables(root)):
        write_arrow(root / f"set-train-{i:05}-of-00004.arrow", table)
    write_arrow(root / "cache-0123.arrow", table)
    return root


def _tar(root: Path) -> Path:
    for k, (start, stop) in enumerate(SHARDS):
        members = [
            (f"{i}.{kind}", data)
            for i in range(start, stop)
            for kind, data in (("png", png(PIXELS[i])), ("cls", b"%d" % (i % 3)))
        ]
        write_tar(root / f"train-{k}.tar", members)
    (root / "classnames.txt").write_text("\n".join(NAMES))
    return root


SOURCES: Mapping[str, Callable[[Path], Path]] = {
    "folder": _folder,
    "npz": _npz,
    "compressed npz": lambda root: _npz(root, save=np.savez_compressed),
    "Fortran npz": lambda root: _npz(root, order="F"),
    "Parquet": _parquet,
    "saved Arrow": lambda root: save_to_disk(root, *_tables(root)),
    "cached Arrow": _arrow_cache,
    "tar": _tar,
}


def read(path: Path | str) -> Source:
    return find_reader(DataConfig(source=str(path), rows=8, cols=8, placements=2))()


def train(path: Path) -> SourceSplit:
    return read(path).splits["train"]


def labels_of(split: SourceSplit) -> list[int]:
    assert split.labels is not None
    return split.labels.tolist()


def decoded(images: Iterable[RawImage]) -> list[object]:
    return [np.asarray(decode_image(read_content(image), 8)).tolist() for image in images]


@pytest.mark.parametrize("name", SOURCES)
def test_all_sources_give_the_same_images_and_labels_from_any_image_on(tmp_path: Path, name: str) -> None:
    source = read(SOURCES[name](tmp_path))
    split = source.splits["train"]
    assert split.num_images == 23
    for start, stop in [(0, 0), (0, 23), (5, 6), (8, 10), (9, 9), (3, 21), (22, 23), (23, 23)]:
        assert decoded(split.images(start, stop)) == PIXELS[start:stop].tolist()
    assert decoded(split.images(20)) == PIXELS[20:].tolist()
    assert labels_of(split) == LABELS.tolist()
    assert source.classes == tuple(NAMES)
    assert len({split.image_name(i) for i in range(23)}) == 23


@pytest.mark.parametrize("name", SOURCES)
def test_the_hash_follows_the_content_and_not_the_time(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "TICK", 0)
    root = tmp_path / "set"
    root.mkdir()
    path = SOURCES[name](root)
    first = read(path).content_hash
    assert first == read(path).content_hash == read(path).content_hash
    PIXELS[7] ^= 1
    try:
        SOURCES[name](root)
        changed = {read(path).content_hash}
        assert len(changed) == 1 or name == "compressed npz"
        assert first not in changed
    finally:
        PIXELS[7] ^= 1


def test_every_digit_is_in_one_split_of_translated_digits_and_unchanged() -> None:
    source = find_reader(DataConfig(source="translated-digits", rows=11, cols=9, placements=4))()
    digits = find_reader(DataConfig(source="digits"))().splits["train"]
    scans, seen = list(digits.images()), set[int]()
    sizes = {name: split.num_images for name, split in source.splits.items()}
    assert sizes == {"train": 4 * 1197, "validation": 2 * 150, "test": 2 * 450}
    for split in source.splits.values():
        assert split.groups is not None
        assert not seen & {*split.groups.tolist()}
        seen |= {*split.groups.tolist()}
        assert labels_of(split) == np.array(labels_of(digits))[split.groups].tolist()
        for image, group in zip(split.images(), split.groups.tolist(), strict=True):
            y, x = (np.flatnonzero(np.asarray(image).any(axis)) for axis in (1, 0))
            assert np.asarray(image).sum() == np.asarray(scans[group]).sum()
            assert max(np.ptp(y), np.ptp(x)) < 8
    assert len(seen) == 1797
    small = DataConfig(source="translated-digits", rows=7, cols=9)
    assert "no images of 7 x 9" in refusal(find_reader(small))


# Labels of any size become contiguous classes.


def _labeled(labels: Mapping[SplitName, Iterable[int]], names: Iterable[str] = ()) -> Source:
    def part(ids: Iterable[int]) -> SourceSplit:
        values = np.array(list(ids), np.int64)
        return SourceSplit(len(values), lambda start, stop: iter(()), str, values)

    splits = {name: joined([part(ids)]) for name, ids in labels.items()}
    return with_class_names(Source("set", splits, (), "hash"), names)


def test_identifiers_become_classes_that_keep_them_as_names() -> None:
    source = _labeled({"train": [99_999, 10_017, 2**40, 10_017], "test": [2**40, 3]})
    assert source.classes == ("3", "10017", "99999", str(2**40))
    assert list(map(labels_of, source.splits.values())) == [[2, 1, 3, 1], [3, 0]]
    assert _labeled({"train": [0, 2, 2]}).classes == ("0", "1", "2")
    assert labels_of(_labeled({"train": [1, 0]}, ["cat", "dog"]).splits["train"]) == [1, 0]
    numbers = "labels of dataset 'set' are 4 different numbers from 3 to 1099511627776"
    assert source.notes[0].startswith(numbers)


def test_labels_that_cannot_be_classes_are_left_out_with_a_note() -> None:
    none, many = _labeled({"train": [-1, -1], "test": [0]}), np.arange(MAX_CLASSES + 1) * 7
    assert (none.splits["train"].labels, none.notes) == (None, ())
    for labels, names, note in (
        (many, (), "they are of 100,001 different classes"),
        ([0, 1], ["cat"], "label 1 has no class name; the dataset has 1 class name"),
    ):
        source = _labeled({"train": labels}, names)
        assert source.splits["train"].labels is None
        assert note in source.notes[0]


def test_only_files_that_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the index was damaged; the hash is that of the tree, which needs no index."""
    root, index = tmp_path / "set", tmp_path / "files.sqlite"
    read, opened = provenance.hash_file, list[str]()
    monkeypatch.setattr(provenance, "hash_file", lambda path, _: opened.append(Path(path).name) or read(path))

    def files_read(*names: str) -> list[str]:
        expected = hash_tree(files := {name: root / name for name in names})
        opened.clear()
        assert hash_tree(files, index) == expected
        return sorted(opened)

    names = ["a.png", "b/c.png", os.fsdecode(b"d\xff.png")]
    (root / "b").mkdir(parents=True)
    for i, name in enumerate(names):
        (root / name).write_text(str(i))
    monkeypatch.setattr(provenance, "TICK", 10**12)
    assert [len(files_read(*names)) for _ in range(2)] == [3, 3], "they have just changed"
    monkeypatch.setattr(provenance, "TICK", -(10**12))
    for content in (b"", b"SQLite format 3\0 damaged"):
        index.write_bytes(content)
        assert [len(files_read(*names)) for _ in range(4)][3] == 0
    (root / "a.png").write_text("other")
    (root / "b" / "new.png").write_text("new")
    assert files_read(*names, "b/new.png", "missing.png") == ["a.png", "missing.png", "new.png"]
