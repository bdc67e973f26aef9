"""Both stores, and files so large that selections of them are numbers, give the same images."""

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, features

from isopix.core.types import StoredImages, image_batches
from isopix.data import store
from isopix.data.augment import InceptionCrop, ScaleCrop
from isopix.data.cache import cached_source
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.data.sources.base import Source, SourceSplit
from isopix.data.splits import Split
from isopix.data.store import FileImages, encode_pixels

COUNT, CPU = 21, torch.device("cpu")
PICTURES = [
    np.random.default_rng(i).integers(0, 256, (14 + i % 5, 40 - i, 3), dtype=np.uint8) for i in range(COUNT)
]
INDICES = [slice(None), slice(2, 100, 3), slice(4, 4), slice(-3, None), torch.tensor([8, 0, 0, -1])]


def cached(folder: Path, name: str) -> Split:
    """The pictures in a store, at 6x8 and with whole ones; `mapped` are pixels of a large file."""
    split = SourceSplit(COUNT, lambda start, stop: iter(PICTURES[start:stop]), str, np.arange(COUNT))
    choice = "encoded" if name == "encoded" else "pixels"
    config = DataConfig(rows=6, cols=8, augment=InceptionCrop(min_area=(8 / 14) ** 2), store=choice)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "COPIED_BYTES", 0 if name == "mapped" else 2**30)
        source = Source("noise", {"train": split}, (), "hash")
        found = cached_source(source, config, folder)
    return found.splits["train"]


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    folder = tmp_path_factory.mktemp("cache")
    return {name: cached(folder, name) for name in ("pixels", "mapped", "encoded")}


@pytest.fixture(scope="module", params=["mapped", "encoded"])
def stored(request: pytest.FixtureRequest, splits: Mapping[str, Split]) -> Split:
    return splits[request.param]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_selecting_and_joining_are_those_of_tensors(
    stored: Split, splits: Mapping[str, Split], index: slice | torch.Tensor
) -> None:
    whole, images = splits["pixels"].images, stored.images
    assert isinstance(images, StoredImages)
    assert (len(images), images.shape, images.device) == (COUNT, whole.shape, CPU)
    assert torch.equal(images[index], whole[index])
    order = torch.tensor([20, 3, 11, 25, 8, 9, 22, 1, 19])
    chosen = [
        each.select(torch.arange(15, 2, -1)).concat(each).select(order).images
        for each in (Split(images), Split(whole))
    ]
    assert isinstance(chosen[0], FileImages)
    assert torch.equal(chosen[0][index], chosen[1][index])
    assert torch.equal(Split(images).concat(Split(whole)).images, torch.cat([whole, whole]))
    batches = list(image_batches(images, 8))
    assert [len(batch) for batch in batches] == [8, 8, 5]
    assert torch.equal(torch.cat(batches), whole)


def test_a_selection_reads_nothing(stored: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileImages, "__getitem__", lambda images, index: pytest.fail("it reads"))
    split = stored.select(torch.tensor([4, 2, 7])).concat(stored).sample(5).to(CPU)
    assert (len(split), split.nbytes > 5 * 3 * 48) == (5, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda full: full,
        lambda full: full.select(torch.tensor([3, 1, 2, 2])),
        lambda full: full.concat(full.select(torch.tensor([2, 0]))),
        lambda full: full.concat(full).to(CPU) if not full.is_decoded else full.concat(full).packed(CPU),
        lambda full: full.only(torch.tensor([1, 2])),
    ],
    ids=["whole", "selected", "joined", "packed", "only"],
)
def test_whole_images_are_those_of_pixels(
    stored: Split, splits: Mapping[str, Split], change: Callable[[FileImages], FileImages]
) -> None:
    assert stored.full_resolution is not None
    assert splits["pixels"].full_resolution is not None
    found, expected = change(stored.full_resolution), change(splits["pixels"].full_resolution)
    assert all(map(np.array_equal, found.images(), expected.images()))
    sizes = (torch.stack([each.heights, each.widths]) for each in (found, expected))
    assert torch.equal(*sizes)


def test_png_serves_where_webp_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = np.zeros((3, 1, 20_000), np.uint8)  # wider than a WebP may be
    small = PICTURES[0].transpose(2, 0, 1)
    assert encode_pixels(wide, None)[:4].tobytes() == b"\x89PNG"
    assert encode_pixels(small, None)[:4].tobytes() == b"RIFF"
    monkeypatch.setattr(features, "check", lambda name: False)
    content = encode_pixels(small, None).tobytes()
    assert content[:4] == b"\x89PNG"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), PICTURES[0])


def _photo(folder: Path, number: int, size: tuple[int, int], **options: object) -> bytes:
    """Write a smooth JPEG of this width and height, and return its content."""
    noise = np.random.default_rng(number).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    path = folder / f"{number}.jpg"
    Image.fromarray(noise).resize(size).save(path, **options)
    return path.read_bytes()


def test_jpeg_files_that_are_not_resized_are_kept_as_they_are(tmp_path: Path) -> None:
    """Upright, lying, rotated by EXIF, gray and larger ones have the pixels of the other store."""
    folder, exif = tmp_path / "photos", Image.Exif()
    folder.mkdir()
    exif[0x0112] = 6
    small = [_photo(folder, i, size) for i, size in enumerate([(20, 30), (30, 20), (21, 21)])]
    small += [_photo(folder, 3, (22, 30), exif=exif), _photo(folder, 4, (25, 25), quality=30)]
    large = [_photo(folder, 5, (80, 60)), _photo(folder, 6, (400, 300))]
    crop = ScaleCrop(min_side=12, max_side=16, crop=10)  # keeps a shorter side of 26
    config = DataConfig(source=str(folder), rows=8, cols=8, augment=crop, holdout=0.0)
    stores = [replace(config, store=name) for name in ("pixels", "encoded")]
    pixels, encoded = (load_dataset(each, cache=tmp_path / "cache").train for each in stores)
    contents = [path.read_bytes() for path in (tmp_path / "cache").glob("*/train.full")]
    assert all(any(each in content for content in contents) for each in small)
    assert not any(each in content for content in contents for each in large)
    assert pixels.full_resolution is not None
    assert encoded.full_resolution is not None
    assert all(map(np.array_equal, encoded.full_resolution.images(), pixels.full_resolution.images()))
