"""Files that are read as images, and notes of all others: nothing is left out without a word."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from PIL import Image

from isopix.data import decode
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.data.sources.base import Source
from isopix.data.sources.files import SYSTEM_NAMES
from isopix.verbs.data import data_show
from tests.unit.data.refusal import refusal
from tests.unit.data.shards import encoded, table
from tests.unit.data.test_sources import read


@pytest.fixture(autouse=True)
def without_heif(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    decode.image_suffixes.cache_clear()
    yield
    decode.image_suffixes.cache_clear()


def _files(root: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(encoded(number))
    return root


def _names(source: Source) -> list[str]:
    split = source.splits["train"]
    return sorted(Path(split.image_name(i)).name for i in range(split.num_images))


def test_all_other_files_and_folders_without_images_are_named(tmp_path: Path) -> None:
    images = ["cat/a.JPG", "cat/b.jfif", "cat/c.jpe"]
    root = _files(tmp_path, *images, "cat/1.svg", "cat/2.svg", "notes", "dog/3.HEIC", "dog/4.heif")
    (root / "bird" / "nest").mkdir(parents=True)
    source = read(root)
    assert (_names(source), source.classes) == (["a.JPG", "b.jfif", "c.jpe"], ("cat",))
    heif = "(pip install -e '.[heif]')"
    counts = f"2 .svg, 1 without suffix, 1 .heic {heif}, 1 .heif {heif}"
    notes = (f"ignored files in {root}: {counts}", "folders without images: bird/, dog/")
    assert source.notes == notes
    assert data_show(root).warnings == notes
    assert f": 1 .heic {heif}" in refusal(read, root / "dog")
    assert load_dataset(DataConfig(source=str(root), rows=8, cols=8, holdout=0.0)).notes == notes


def test_folders_and_files_of_systems_are_ignored(tmp_path: Path) -> None:
    system = [f"{name.title()}/b.png" for name in SYSTEM_NAMES if "." not in name]
    hidden = ["cat/@eaDir/b.png", "cat/.ipynb_checkpoints/b.png", "cat/._a.png", "Temporary Items/b.png"]
    source = read(_files(tmp_path, "cat/a.png", *system, *hidden))
    assert (_names(source), source.classes, source.notes) == (["a.png"], ("cat",), ())


def test_folders_that_are_linked_to_each_other_are_read_once_in_each(tmp_path: Path) -> None:
    root = _files(tmp_path, "a/1.png", "b/2.png")
    (root / "a/b").symlink_to("../b")
    (root / "b/a").symlink_to("../a")
    assert _names(read(root)) == ["1.png", "1.png", "2.png", "2.png"]


def test_photos_beside_a_table_are_read_and_the_table_is_named(tmp_path: Path) -> None:
    pq.write_table(table(3), _files(tmp_path, "a.png") / "0.parquet")
    assert _names(read(tmp_path)) == ["a.png"]
    assert read(tmp_path).notes == (f"ignored files in {tmp_path}: 1 .parquet",)
    (tmp_path / "a.png").rename(tmp_path / "._a.png")
    assert read(_files(tmp_path, "README.md")).splits["train"].num_images == 3
    assert read(tmp_path).notes == (f"ignored files in {tmp_path}: 1 .md",)


@pytest.mark.skipif(".avif" not in Image.registered_extensions(), reason="Pillow has no AVIF")
def test_avif_is_read_where_pillow_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (8, 8), (200, 10, 10)).save(_files(tmp_path, "b.png") / "a.avif", quality=100)
    assert _names(read(tmp_path)) == ["a.avif", "b.png"]
    pixel = decode.decode_image((tmp_path / "a.avif").read_bytes(), 1).getpixel((4, 4))
    assert pixel == pytest.approx((200, 10, 10), abs=3)
    monkeypatch.delitem(Image.EXTENSION, ".avif")
    decode.image_suffixes.cache_clear()
    assert read(tmp_path).notes[0].endswith(": 1 .avif (pip install 'pillow>=11.3')")


def test_heif_is_read_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opener = partial(monkeypatch.setitem, Image.EXTENSION, ".heic", "HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", SimpleNamespace(register_heif_opener=opener))
    decode.image_suffixes.cache_clear()
    assert _names(read(_files(tmp_path, "b.png", "b.HEIC"))) == ["b.HEIC", "b.png"]
