"""Encoded images stand where a tensor of the same images stands."""

import io
import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, features

from isopix.core.images import StoredImages, concat_images, image_batches, select_images
from isopix.data import encoded_file
from isopix.data.augment import ScaleCrop
from isopix.data.encoded import EncodedFullResolution, EncodedImages
from isopix.data.encoded_file import EncodedFile, EncodedWriter, encode_pixels
from isopix.data.full_resolution import FullResolution
from isopix.data.splits import Split
from isopix.storage.growing_folder import GrowingFolder
from tests.unit.data.refusal import refusal

Pixels = NDArray[np.uint8]


def _noise(count: int, rows: int = 5, cols: int = 7, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, 3, rows, cols), dtype=np.uint8)


def _file(folder: Path, images: Sequence[Pixels], name: str = "train.images") -> EncodedFile:
    with closing(GrowingFolder(folder)) as growing:
        writer = EncodedWriter(growing, name)
        for image in images:
            writer.append(encode_pixels(image))
        writer.finish()
    return EncodedFile.open(folder, name)


@pytest.fixture
def pixels() -> Pixels:
    return _noise(9)


@pytest.fixture
def stored(tmp_path: Path, pixels: Pixels) -> EncodedImages:
    return EncodedImages(_file(tmp_path, list(pixels)), 5, 7)


INDICES = [
    slice(None),
    slice(2, 5),
    slice(7, 100),
    slice(4, 4),
    slice(None, None, 3),
    slice(-3, None),
    torch.tensor([-1, 2]),
    torch.tensor([8, 0, 0, 3]),
    torch.tensor([], dtype=torch.int64),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_that_of_the_tensor(
    stored: EncodedImages, pixels: Pixels, index: slice | torch.Tensor
) -> None:
    whole = torch.from_numpy(pixels)
    assert torch.equal(stored[index], whole[index])
    assert stored[index].dtype == torch.uint8


def test_it_has_the_shape_and_length_of_the_tensor(stored: EncodedImages) -> None:
    assert (len(stored), stored.shape, stored.device) == (9, (9, 3, 5, 7), torch.device("cpu"))
    assert isinstance(stored, StoredImages)


def test_pillow_reads_every_image_at_its_offset(tmp_path: Path, pixels: Pixels) -> None:
    _file(tmp_path, list(pixels))
    content, offsets = (
        (tmp_path / "train.images.bin").read_bytes(),
        np.load(tmp_path / "train.images.offsets.npy"),
    )
    for i in (0, 4, 8):
        with Image.open(io.BytesIO(content[offsets[i] : offsets[i + 1]])) as image:
            assert np.array_equal(np.asarray(image.convert("RGB")).transpose(2, 0, 1), pixels[i])
    assert offsets[-1] == len(content)


def test_a_selection_of_selections_and_a_concatenation_decode_nothing(
    stored: EncodedImages, tmp_path: Path, pixels: Pixels, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = _noise(4, seed=1)
    more = EncodedImages(_file(tmp_path, list(others), "validation.images"), 5, 7)
    with monkeypatch.context() as patch:
        patch.setattr(encoded_file, "decode_pixels", None)
        chosen = stored.select(torch.tensor([6, 2, 8])).select(torch.tensor([2, 0]))
        both = chosen.concat(more).select(torch.tensor([5, 0, 1, 2]))
    expected = np.concatenate([pixels[[8, 6]], others])[[5, 0, 1, 2]]
    assert np.array_equal(both[:].numpy(), expected)


def test_images_without_color_and_of_one_pixel_are_kept_exactly(tmp_path: Path) -> None:
    images = [np.full((3, 1, 1), 200, np.uint8), np.full((3, 1, 1), 0, np.uint8)]
    assert np.array_equal(EncodedImages(_file(tmp_path, images), 1, 1)[:].numpy(), np.stack(images))


def test_no_images_are_no_error(tmp_path: Path) -> None:
    none = EncodedImages(_file(tmp_path, []), 5, 7)
    assert none[:].shape == (0, 3, 5, 7)


@pytest.mark.parametrize("webp", [True, False])
def test_png_serves_where_webp_does_not(
    tmp_path: Path, pixels: Pixels, monkeypatch: pytest.MonkeyPatch, webp: bool
) -> None:
    monkeypatch.setattr(features, "check", lambda name: webp)
    wide = _noise(1, 1, 20_000)[0]  # wider than a WebP may be
    assert encode_pixels(wide)[:4].tobytes() == b"\x89PNG"
    assert encode_pixels(pixels[0])[:4].tobytes() == (b"RIFF" if webp else b"\x89PNG")
    images = EncodedImages(_file(tmp_path, list(pixels)), 5, 7)
    assert np.array_equal(images[:].numpy(), pixels)


def test_a_pickled_sequence_is_its_path_and_index(stored: EncodedImages, pixels: Pixels) -> None:
    data = pickle.dumps(stored)
    assert np.array_equal(pickle.loads(data)[:].numpy(), pixels)
    assert stored.encoded.files[0].path.read_bytes()[:100] not in data, (
        "the file is mapped anew, not copied into workers"
    )


def _spoil(content: bytes) -> bytes:
    return content[:20] + bytes(20) + content[40:]


def test_a_damaged_image_ends_in_one_line_that_says_what_to_delete(tmp_path: Path, pixels: Pixels) -> None:
    images = EncodedImages(_file(tmp_path, list(pixels)), 5, 7)
    path = tmp_path / "train.images.bin"
    path.write_bytes(_spoil(path.read_bytes()))
    text = refusal(lambda: images[:1], kind=RuntimeError)
    assert text.startswith(f"an image in {path} is damaged (")
    assert text.endswith(f"); delete {tmp_path}, which is then written anew")


SIZES = [(6, 9), (12, 5), (7, 7), (40, 6)]


@pytest.fixture
def both_full(tmp_path: Path) -> tuple[FullResolution, EncodedFullResolution]:
    """The same images decoded and encoded."""
    images = [_noise(1, *size, seed=i)[0] for i, size in enumerate(SIZES)]
    heights, widths = (torch.tensor(sides) for sides in zip(*SIZES, strict=True))
    sizes = 3 * heights * widths
    pixels = torch.from_numpy(np.concatenate([image.flatten() for image in images]))
    decoded = FullResolution(pixels, sizes.cumsum(0) - sizes, heights, widths)
    return decoded, EncodedFullResolution(_file(tmp_path, images, "train.full"), heights, widths)


@pytest.mark.parametrize(
    "change",
    [
        lambda full: full,
        lambda full: full.select(torch.tensor([3, 1])),
        lambda full: full.concat(full.select(torch.tensor([2]))),
        lambda full: full.to(torch.device("cpu")),
    ],
    ids=["whole", "selected", "concatenated", "moved"],
)
def test_full_resolution_images_are_those_of_the_decoded_store(
    both_full: tuple[FullResolution, EncodedFullResolution], change: Callable[[object], object]
) -> None:
    decoded, encoded = map(change, both_full)
    for indices in (torch.tensor([1, 0]), torch.tensor([0, 0, 1])):
        pairs = zip(encoded.select(indices).images(), decoded.select(indices).images(), strict=True)
        assert all(np.array_equal(*pair) for pair in pairs)
    assert encoded.nbytes == decoded.nbytes


def test_random_crops_are_those_of_the_decoded_store(
    both_full: tuple[FullResolution, EncodedFullResolution],
) -> None:
    crop = ScaleCrop(min_side=6, max_side=9, crop=5, flip=0.5)
    samples = [
        crop.sample(
            Split(torch.zeros(4, 3, 3, 4, dtype=torch.uint8), full_resolution=full),
            torch.tensor([2, 0, 3]),
            torch.Generator().manual_seed(5),
        )
        for full in both_full
    ]
    assert torch.equal(*samples)


def test_helpers_serve_tensors_and_stored_images(stored: EncodedImages, pixels: Pixels) -> None:
    whole, indices = torch.from_numpy(pixels), torch.tensor([4, 1])
    assert torch.equal(select_images(whole, indices), select_images(stored, indices)[:])
    assert torch.equal(concat_images(whole, whole), concat_images(stored, stored)[:])
    assert torch.equal(concat_images(stored, whole), torch.cat([whole, whole]))
    batches = list(image_batches(stored, 4))
    assert [len(batch) for batch in batches] == [4, 4, 1]
    assert torch.equal(torch.cat(batches), whole)
