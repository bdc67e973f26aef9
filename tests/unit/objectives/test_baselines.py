"""Baselines from counts against sums over every code, written out in Python."""

from itertools import product

import pytest
import torch

from isopix.codecs.patches import BytesSpec, GrayThumbnailSpec
from isopix.core.types import Grid
from isopix.objectives.baselines import LeftNeighbor, PairBaseline, TopNeighbor, code_map
from isopix.objectives.objectives import Autoregressive
from tests.unit.objectives.code_batches import (
    CODEC,
    COLS,
    ROWS,
    TRAIN,
    Picture,
    expected_loss,
    loss,
    pair_probability,
    picture,
    unigram,
)


@pytest.mark.parametrize(("baseline", "up", "left"), [(LeftNeighbor, 0, 1), (TopNeighbor, 1, 0)])
def test_a_neighbor_predicts_by_the_pairs_in_training(
    baseline: type[PairBaseline], up: int, left: int
) -> None:
    pairs = [
        (image[row - up][col - left], image[row][col])
        for image in map(picture, CODEC.encode(TRAIN))
        for row, col in product(range(up, ROWS), range(left, COLS))
    ]

    def predict(image: Picture, hidden: Picture, row: int, col: int) -> float:
        if row < up or col < left:
            return unigram(image[row][col])
        return pair_probability(pairs, image[row - up][col - left], image[row][col])

    expected = expected_loss(predict, Autoregressive())
    assert loss(baseline, Autoregressive()) == pytest.approx(expected, rel=1e-12)


def test_codes_of_a_patch_are_laid_out_as_its_pixels() -> None:
    """A gray ramp from left to right is a ramp in the map of thumbnails; bytes have three maps."""
    ramp = torch.arange(0, 256, 16, dtype=torch.uint8).expand(1, 3, 16, 16).contiguous()
    codec = GrayThumbnailSpec(patch_size=8).fit(ramp, Grid(2, 2), 0)
    levels = code_map(codec.encode(ramp), codec)
    assert levels.shape == (1, 1, 16, 16)
    assert levels[0, 0, 3].tolist() == sorted(levels[0, 0, 3].tolist())
    pixels = BytesSpec().fit(ramp, Grid(16, 16), 0)
    assert torch.equal(code_map(pixels.encode(ramp), pixels), ramp.long())
