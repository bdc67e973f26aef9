"""Patches to what little of them is named, and back; against loops over pixels that share no code."""

import numpy as np
import pytest
import torch
from einops import rearrange
from numpy.typing import NDArray
from torch import Tensor

from isopix.codecs import ByteChannels, CodecSpec, DownsampledColour, GreyThumbnail, MeanColour, WholePatch
from isopix.core.config import from_dict
from isopix.core.random import generator
from isopix.core.types import Grid

GRID = Grid(2, 3)
SETTINGS = [
    MeanColour(patch=5),
    MeanColour(bits=4),
    DownsampledColour(patch=8),
    DownsampledColour(patch=6, side=3, bits=1),
    GreyThumbnail(),
    GreyThumbnail(target="subsample8"),
    GreyThumbnail(patch=8, bits=8),
    GreyThumbnail(patch=12),
    GreyThumbnail(patch=13),
    GreyThumbnail(patch=24, target="subsample8"),
    WholePatch(patch=5),
    WholePatch(patch=1),
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
def test_a_colour_is_the_first_bits_of_the_mean_of_each_channel(side: int, bits: int) -> None:
    settings = DownsampledColour(patch=8, side=side, bits=bits)
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


def test_a_mean_colour_of_three_bits_has_512_levels_and_one_code() -> None:
    codec = MeanColour().build(GRID)
    assert (codec.num_codes, codec.vocab_size, codec.patch_size) == (1, 512, 16)
    white = torch.full((1, 3, 32, 48), 255, dtype=torch.uint8)
    assert codec.encode(white).unique().tolist() == [511]
    assert codec.encode(white * 0).unique().tolist() == [0]


def test_a_whole_patch_is_each_channel_of_each_of_its_pixels() -> None:
    images = draw(WholePatch(patch=4))
    codec = WholePatch(patch=4).build(GRID)
    codes = codec.encode(images)
    assert codes.shape == (2, 6, 48)
    for position in range(6):
        patch = patch_of(images, 1, position, 4)
        listed = [patch[channel, row, col] for row in range(4) for col in range(4) for channel in range(3)]
        assert codes[1, position].tolist() == listed
    assert torch.equal(codec.decode(codes), images)


def test_patches_of_one_pixel_are_bytes() -> None:
    one, other = WholePatch(patch=1).build(GRID), ByteChannels().build(GRID)
    images = draw(WholePatch(patch=1))
    assert torch.equal(one.encode(images), other.encode(images))
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize(
    ("patch", "target", "taken"),
    [
        (16, "center_crop8", range(4, 12)),
        (14, "center_crop8", range(3, 11)),
        (13, "center_crop8", range(2, 10)),
        (8, "center_crop8", range(8)),
        (16, "subsample8", range(0, 16, 2)),
        (24, "subsample8", range(0, 24, 3)),
        (8, "subsample8", range(8)),
    ],
)
def test_a_thumbnail_is_the_grey_of_its_pixels_over_64(patch: int, target: str, taken: range) -> None:
    settings = from_dict(GreyThumbnail, {"patch": patch, "target": target})
    images = draw(settings)
    codes = settings.build(GRID).encode(images)
    assert (codes.shape, settings.build(GRID).vocab_size) == ((2, 6, 64), 4)
    for position in range(6):
        pixels = patch_of(images, 0, position, patch)
        grey = np.tensordot([0.299, 0.587, 0.114], pixels, 1)[np.ix_(taken, taken)]
        assert codes[0, position].tolist() == np.floor(grey / 64).astype(int).flatten().tolist()


def test_around_a_centre_crop_its_border_is_repeated() -> None:
    codec = GreyThumbnail().build(Grid(1, 1))
    codes = torch.arange(64)[None, None] // 8 % 4
    grey = codec.decode(codes)[0, 0]
    assert torch.equal(grey[:5], grey[4].expand(5, 16))
    assert torch.equal(grey[11:], grey[11].expand(5, 16))


def test_a_patch_codec_reads_images_of_any_size() -> None:
    codec = MeanColour(patch=4).build(GRID)
    tall = torch.randint(256, (1, 3, 20, 4), dtype=torch.uint8, generator=generator(0, "tall"))
    one_by_one = rearrange(tall, "b c (h p) w -> (b h) c p w", p=4)
    assert torch.equal(codec.encode(tall)[0, :, 0], codec.encode(one_by_one)[:, 0, 0])


def test_fingerprints_differ_as_the_maps_do() -> None:
    made = [settings.build(GRID).fingerprint() for settings in SETTINGS]
    assert len(set(made)) == len(made)
    assert (
        MeanColour(patch=8).build(GRID).fingerprint() == MeanColour(patch=8).build(Grid(7, 1)).fingerprint()
    )


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (WholePatch, {"patch": 0}, "patch 0 must be at least 1"),
        (MeanColour, {"patch": 0}, "patch 0 must be at least 1"),
        (MeanColour, {"bits": 6}, "bits 6; allowed: 1 to 5"),
        (GreyThumbnail, {"bits": 9}, "bits 9; allowed: 1 to 8"),
        (GreyThumbnail, {"patch": 7}, "patch 7 is smaller than 8, the side of a thumbnail"),
        (
            GreyThumbnail,
            {"patch": 12, "target": "subsample8"},
            "patch 12 is not a multiple of 8, as target subsample8 needs it; take target center_crop8",
        ),
        (DownsampledColour, {"side": 3}, "patch 16 cannot be cut into 3 x 3 equal parts"),
    ],
)
def test_impossible_settings_are_refused(kind: type, values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dict(kind, values)
