"""Patch codecs, against independent loops over pixels."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs.base import CodecSpec
from isopix.codecs.patches import DownsampledColorSpec, FullPatchSpec, GrayThumbnailSpec, MeanColorSpec
from isopix.core.config import from_dict
from isopix.core.random import generator
from isopix.core.types import Grid

GRID = Grid(2, 3)
SETTINGS = [
    MeanColorSpec(patch_size=5),
    DownsampledColorSpec(patch_size=8),
    DownsampledColorSpec(patch_size=6, side=3, bits=1),
    GrayThumbnailSpec(),
    GrayThumbnailSpec(thumbnail="subsample"),
    GrayThumbnailSpec(patch_size=8, bits=8),
    GrayThumbnailSpec(patch_size=13),
    GrayThumbnailSpec(patch_size=24, thumbnail="subsample"),
    FullPatchSpec(patch_size=5),
    FullPatchSpec(patch_size=1),
]
every = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def draw(settings: CodecSpec, count: int = 2) -> Tensor:
    shape = (count, 3, GRID.rows * settings.patch_size, GRID.cols * settings.patch_size)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def patch_of(images: Tensor, image: int, position: int, cell: int) -> NDArray[np.int64]:
    row, col = divmod(position, GRID.cols)
    part = images[image, :, row * cell : (row + 1) * cell, col * cell : (col + 1) * cell]
    return part.numpy().astype(np.int64)


@every
def test_codes_survive_decoding(settings: CodecSpec) -> None:
    codec = settings.fit(draw(settings), GRID, seed=0)
    codes = torch.randint(codec.vocab_size, (50, 6, codec.num_codes), generator=generator(0, "codes"))
    images = codec.decode(codes)
    assert images.dtype == torch.uint8
    assert images.shape == (50, 3, GRID.rows * settings.patch_size, GRID.cols * settings.patch_size)
    assert torch.equal(codec.encode(images), codes)


@every
def test_one_position_is_decoded_alone(settings: CodecSpec) -> None:
    codec = settings.fit(draw(settings), GRID, seed=0)
    codes = codec.encode(draw(settings))
    cell, place = settings.patch_size, slice(settings.patch_size, 2 * settings.patch_size)
    alone = codec.decode(codes[:, 4:5], Grid(1, 1))
    assert torch.equal(alone, codec.decode(codes)[:, :, place, place])
    assert alone.shape == (2, 3, cell, cell)


@pytest.mark.parametrize(("side", "bits"), [(1, 3), (4, 3), (2, 2)])
def test_a_color_is_the_first_bits_of_the_mean_of_each_channel(side: int, bits: int) -> None:
    settings = DownsampledColorSpec(patch_size=8, side=side, bits=bits)
    images = draw(settings)
    codes = settings.build(GRID).encode(images)
    assert codes.shape == (2, 6, side * side)
    part = 8 // side
    for position, code in ((0, 0), (4, side * side - 1)):
        patch = patch_of(images, 1, position, 8)
        row, col = divmod(code, side)
        mean = patch[:, row * part : (row + 1) * part, col * part : (col + 1) * part].mean((1, 2))
        red, green, blue = np.floor(mean / 2 ** (8 - bits)).astype(int)
        assert codes[1, position, code] == (red * 2**bits + green) * 2**bits + blue
    images = torch.full((1, 3, 16, 16), 224, dtype=torch.uint8)
    images[..., 0, 0] -= 1  # the mean is just below a color
    assert MeanColorSpec(patch_size=16).build(Grid(1, 1)).encode(images).item() == 0o666


def test_a_full_patch_is_each_channel_of_each_of_its_pixels() -> None:
    images = draw(FullPatchSpec(patch_size=4))
    codec = FullPatchSpec(patch_size=4).build(GRID)
    codes = codec.encode(images)
    assert codes.shape == (2, 6, 48)
    for position in range(6):
        patch = patch_of(images, 1, position, 4)
        listed = [patch[channel, row, col] for row in range(4) for col in range(4) for channel in range(3)]
        assert codes[1, position].tolist() == listed
    assert torch.equal(codec.decode(codes), images)


@pytest.mark.parametrize(
    ("patch", "target", "taken"),
    [
        (16, "center_crop", range(4, 12)),
        (13, "center_crop", range(2, 10)),
        (8, "center_crop", range(8)),
        (16, "subsample", range(0, 16, 2)),
        (24, "subsample", range(0, 24, 3)),
    ],
)
def test_a_thumbnail_is_the_gray_of_its_pixels_over_64(patch: int, target: str, taken: range) -> None:
    settings = from_dict(GrayThumbnailSpec, {"patch_size": patch, "thumbnail": target})
    images = draw(settings)
    codes = settings.build(GRID).encode(images)
    assert (codes.shape, settings.build(GRID).vocab_size) == ((2, 6, 64), 4)
    for position in range(6):
        pixels = patch_of(images, 0, position, patch)
        gray = np.tensordot([0.299, 0.587, 0.114], pixels, 1)[np.ix_(taken, taken)]
        assert codes[0, position].tolist() == np.floor(gray / 64).astype(int).flatten().tolist()


def test_pixels_around_a_center_crop_repeat_its_border() -> None:
    codec = GrayThumbnailSpec().build(Grid(1, 1))
    codes = torch.arange(64)[None, None] // 8 % 4
    gray = codec.decode(codes)[0, 0]
    assert torch.equal(gray[:5], gray[4].expand(5, 16))
    assert torch.equal(gray[11:], gray[11].expand(5, 16))


def test_different_codecs_have_different_fingerprints() -> None:
    made = {settings.build(GRID).fingerprint() for settings in SETTINGS}
    assert len(made) == len(SETTINGS)
    assert made == {settings.build(Grid(7, 1)).fingerprint() for settings in SETTINGS}
