"""Pixels to the nearest of K colours, or to their three bytes, and back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from isopix.codecs import CodecSpec
from isopix.codecs import palette as palette_module
from isopix.codecs.pixel import ByteChannels, Bytes, Palette, PaletteColours
from isopix.core.config import from_dict, to_dict
from isopix.core.random import generator
from isopix.core.types import Grid

GRID = Grid(4, 6)
RAMP = torch.arange(16.0)[:, None].expand(16, 3) * 17
PRIMARIES = torch.tensor([[0.0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255]])


def draw(*shape: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def spread(colours: int) -> Tensor:
    return 255 * torch.rand(colours, 3, generator=generator(0, "colours"))


@pytest.mark.parametrize("colours", [RAMP, PRIMARIES, spread(512)], ids=["ramp", "primaries", "512"])
def test_codes_survive_decoding(colours: Tensor) -> None:
    palette = Palette(colours, GRID)
    codes = torch.randint(len(colours), (3, 24, 1), generator=generator(0, "codes"))
    assert torch.equal(palette.encode(palette.decode(codes)), codes)


def test_openai_palette_survives_decoding(real_data: Path) -> None:
    centres = torch.from_numpy(np.load(real_data / "openai-kmeans-centers.npy"))
    palette = Palette((centres + 1) * 127.5, Grid(16, 32))
    codes = torch.arange(512).view(1, 512, 1)
    assert torch.equal(palette.encode(palette.decode(codes)), codes)


def test_openai_palette_gives_the_codes_of_their_own_distance(real_data: Path) -> None:
    centres = torch.from_numpy(np.load(real_data / "openai-kmeans-centers.npy"))
    images = draw(1, 3, 128, 128)
    pixels = images[0].flatten(1).T / 127.5 - 1
    theirs = torch.cat(
        [(part[:, None] - centres).square().sum(2).argmin(1) for part in torch.split(pixels, 256)]
    )
    assert torch.equal(Palette((centres + 1) * 127.5, GRID).encode(images).flatten(), theirs)


def test_table_and_search_give_the_same_codes() -> None:
    palette, images = Palette(spread(64), GRID), draw(5, 3, 8, 8)
    searched = palette.encode(images)
    assert palette.table is None
    palette.prepare()
    assert torch.equal(palette.encode(images), searched)


def test_table_is_built_when_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    palette, images = Palette(spread(64), GRID), draw(1, 3, 8, 8)
    monkeypatch.setattr(palette_module, "BREAK_EVEN", 2 * 64 * 64)
    for built in (False, False, True):
        palette.encode(images)
        assert (palette.table is not None) is built


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (4, 6), (5, 3)])
def test_images_of_any_size_are_coded_in_raster_order(prepared: bool, height: int, width: int) -> None:
    palette = Palette(RAMP, GRID)
    if prepared:
        palette.prepare()
    codes = torch.randint(16, (2, height, width), generator=generator(0, "codes"))
    images = (codes * 17).to(torch.uint8)[:, None].expand(-1, 3, -1, -1)
    assert torch.equal(palette.encode(images), codes.view(2, -1, 1))


def test_decode_rounds_half_to_even() -> None:
    palette = Palette(torch.tensor([[0.5, 1.5, 2.4999], [100, 100, 100]]), Grid(1, 1))
    assert palette.decode(torch.tensor([[[0]]])).flatten().tolist() == [0, 2, 2]


def test_decode_fills_the_given_grid() -> None:
    assert Palette(RAMP, GRID).decode(torch.zeros(2, 6, 1, dtype=torch.long), Grid(2, 3)).shape == (
        2,
        3,
        2,
        3,
    )


def test_half_precision_does_not_move_the_colours() -> None:
    palette = Palette(spread(64), GRID)
    before = palette.colours
    assert torch.equal(palette.half().colours, before)


def test_table_moves_with_the_module() -> None:
    palette = Palette(RAMP, GRID)
    palette.prepare()
    palette.to("meta")
    assert palette.table is not None
    assert palette.table.device.type == "meta"


def test_colours_travel_with_the_weights_and_the_table_does_not() -> None:
    palette = Palette(RAMP, GRID)
    palette.prepare()
    assert list(palette.state_dict()) == ["fixed"]


def test_loading_other_colours_changes_the_codes() -> None:
    palette, other, images = Palette(RAMP, GRID), Palette(RAMP.flip(0), GRID), draw(1, 3, 4, 6)
    palette.prepare()
    palette.load_state_dict(other.state_dict())
    assert torch.equal(palette.encode(images), other.encode(images))


def test_fingerprint_is_of_the_colours_and_their_order() -> None:
    prints = {
        Palette(colours, GRID).fingerprint() for colours in (RAMP, RAMP.flip(0), RAMP * 0.999, PRIMARIES)
    }
    assert len(prints) == 4
    assert Palette(RAMP.clone(), Grid(1, 1)).fingerprint() in prints


def test_colours_that_cannot_be_told_apart_are_refused() -> None:
    colours = torch.tensor([[0.0, 0, 0], [9.8, 9, 9], [50, 50, 50], [10.1, 9, 9]])
    with pytest.raises(
        ValueError, match="palette colours 1 and 3 are too close: 1, rounded to whole levels,"
    ):
        Palette(colours, GRID)


@pytest.mark.parametrize(
    ("value", "message"),
    [(-1.0, "run from -1 to 255; allowed: 0 to 255"), (300.0, "to 300;"), (float("nan"), "run from nan")],
)
def test_values_outside_the_range_are_refused(value: float, message: str) -> None:
    colours = PRIMARIES.clone()
    colours[0, 0] = value
    with pytest.raises(ValueError, match=message):
        Palette(colours, GRID)


@pytest.mark.parametrize("colours", [0, 32769])
def test_impossible_numbers_of_colours_are_refused(colours: int) -> None:
    with pytest.raises(
        ValueError, match=f"a palette of {colours} colours is not possible; allowed: 2 to 32768"
    ):
        from_dict(PaletteColours, {"colours": colours})


def test_settings_are_the_same_after_a_file() -> None:
    settings = PaletteColours(colours=7, source="some.npz")
    assert from_dict(PaletteColours, to_dict(settings)) == settings


def test_a_palette_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the palette has 16 colours; codec.colours is 512"):
        PaletteColours().build(GRID, RAMP)


def test_bytes_are_the_channels_and_nothing_is_lost() -> None:
    images = draw(3, 3, 4, 6)
    codes = Bytes(GRID).encode(images)
    assert codes.shape == (3, 24, 3)
    assert codes[1, 13].tolist() == images[1, :, 2, 1].tolist()
    assert torch.equal(Bytes(GRID).decode(codes), images)


def test_bytes_of_any_size_are_decoded_on_the_given_grid() -> None:
    images = draw(2, 3, 1, 5)
    assert torch.equal(Bytes(GRID).decode(Bytes(GRID).encode(images), Grid(1, 5)), images)


@pytest.mark.parametrize("settings", [PaletteColours(colours=16), ByteChannels()])
def test_a_codec_comes_back_from_a_checkpoint(settings: CodecSpec) -> None:
    made = settings.fit(draw(5, 3, 4, 6), GRID, seed=0)
    again = settings.restore(made.state_dict(prefix="codec."), GRID)
    assert again.fingerprint() == made.fingerprint()
    assert (made.num_codes, made.vocab_size) == (
        settings.placeholder(GRID).num_codes,
        settings.placeholder(GRID).vocab_size,
    )


def test_a_checkpoint_without_a_palette_is_told() -> None:
    with pytest.raises(LookupError, match=r"codec\.fixed"):
        PaletteColours(colours=16).restore({}, GRID)


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        (PaletteColours(colours=16), "fitting 16 colours"),
        (PaletteColours(source="some.npz"), ""),
        (ByteChannels(), ""),
    ],
)
def test_what_takes_time_is_said(settings: CodecSpec, task: str) -> None:
    assert settings.task == task
