import pytest
import torch

from isopix.codecs import GreyThumbnail, MeanColour
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.heads import Linear, Upsampling

GRID = Grid(2, 3)
GREY = GreyThumbnail(patch=8).build(GRID)


def test_an_upsampling_head_names_every_pixel_of_a_thumbnail() -> None:
    head = Upsampling(channels=16).build(GREY, 12)
    logits = head(torch.randn(2, 5, 12, generator=generator(0, "tokens")))
    assert logits.shape == (2, 5, 64, 4)
    assert [step.conv1.weight.shape[:2] for step in head.steps[:-1]] == [(8, 16), (4, 8)]


def test_each_position_is_decoded_alone() -> None:
    head = Upsampling(channels=16).build(GREY, 12).double()
    tokens = torch.randn(2, 5, 12, generator=generator(0, "tokens"), dtype=torch.float64)
    torch.testing.assert_close(head(tokens)[1:, 3:4], head(tokens[1:, 3:4]))


def test_codes_that_are_no_thumbnail_are_refused() -> None:
    with pytest.raises(ValueError, match=r"an upsampling head draws 4 x 4, 8 x 8, 16 x 16 .. codes"):
        Upsampling().build(MeanColour(patch=8).build(GRID), 12)


def test_flops_are_of_one_position() -> None:
    assert Linear().flops(GREY, 12) == 2 * 12 * 256
    first = 16 * 4 * 12
    doubled = [16 * (16 * 8 + 9 * (16 * 8 + 8 * 8)), 64 * (8 * 4 + 9 * (8 * 4 + 4 * 4))]
    assert Upsampling(channels=16).flops(GREY, 12) == 2 * (first + sum(doubled) + 64 * 4 * 4)
