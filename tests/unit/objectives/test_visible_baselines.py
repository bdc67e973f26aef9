"""Baselines of masked codes against sums over all visible codes, written out in Python."""

import math
from itertools import product

import pytest
import torch

from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.heads import LinearHeadSpec, RegressionHeadSpec
from isopix.objectives.base import TrainingBatch
from isopix.objectives.baselines import MaskedCodes
from isopix.objectives.visible_baselines import (
    NearestVisible,
    VisibleHistogram,
    exact_matches,
    nearest_visible,
)
from tests.unit.objectives.code_batches import (
    CODEC,
    COLS,
    GRID,
    HALF,
    HELD_OUT,
    ROWS,
    TRAIN,
    Picture,
    batches,
    expected_loss,
    loss,
    unigram,
)


def some_codes(channels: int = 2) -> MaskedCodes:
    draw = generator(0, "codes")
    codes = torch.randint(4, (3, channels, 6, 7), generator=draw)
    hidden = torch.rand(codes.shape, generator=draw) < 0.6
    return MaskedCodes(codes, codes, ~hidden, hidden, torch.full((3,), 1 / 3, dtype=torch.float64))


def test_the_histogram_is_of_the_visible_codes_by_distance() -> None:
    def predict(image: Picture, hidden: Picture, row: int, col: int) -> float:
        seen = [(r, c) for r, c in product(range(ROWS), range(COLS)) if not hidden[r][c]]
        weights = {(r, c): math.dist((r, c), (row, col)) ** -3 for r, c in seen}
        own = sum(weight for (r, c), weight in weights.items() if image[r][c] == image[row][col])
        return 0.9 * own / sum(weights.values()) + 0.1 * unigram(image[row][col])

    assert loss(VisibleHistogram, HALF) == pytest.approx(expected_loss(predict, HALF), rel=1e-9)


def test_the_mean_of_the_histogram_is_the_mean_of_visible_levels_by_distance() -> None:
    batch = some_codes(channels=1)
    codec = PaletteSpec(num_colors=4).placeholder(Grid(6, 7))
    baseline = VisibleHistogram(codec, RegressionHeadSpec())
    row, col = batch.in_loss[0, 0].nonzero()[0].tolist()
    seen = [tuple(each) for each in batch.visible[0, 0].nonzero().tolist()]
    weights = [math.dist(each, (row, col)) ** -3 for each in seen]
    levels = [int(batch.codes[0, 0, r, c]) for r, c in seen]
    weighted = sum(w * level for w, level in zip(weights, levels, strict=True)) / sum(weights)
    expected = 0.9 * weighted + 0.1 * 1.5  # nothing is counted: every level is equally frequent
    assert float(baseline.mean(batch)[0, 0, row, col]) == pytest.approx(expected, rel=1e-9)


def test_the_nearest_visible_code_is_at_the_smallest_distance() -> None:
    batch = some_codes()
    found = nearest_visible(batch)
    for image, channel, row, col in product(range(3), range(2), range(6), range(7)):
        seen = batch.visible[image, channel].nonzero().tolist()
        least = min(math.dist(each, (row, col)) for each in seen)
        nearest = {
            int(batch.codes[image, channel, r, c])
            for r, c in seen
            if math.dist((r, c), (row, col)) == pytest.approx(least)
        }
        assert int(found[image, channel, row, col]) in nearest


def test_the_nearest_visible_code_predicts_by_the_pairs_of_masked_training_codes() -> None:
    """One hidden code, the first of a row, so that there is one nearest visible code."""
    grid = Grid(1, 4)
    images = HELD_OUT[:, :, :1, :4].contiguous()
    codec = PaletteSpec(num_colors=3).fit(TRAIN[:, :, :1, :4], grid, 0)
    codes = codec.encode(images)
    hidden = torch.zeros(len(images), 4, 1, dtype=torch.bool)
    hidden[:, 0] = True
    batch = TrainingBatch.with_equal_weights(images, hidden, codes, hidden).masked_codes(codec)
    pairs = [(second, first) for first, second, *_ in codes[..., 0].tolist()]
    values = codes.flatten().tolist()

    def frequency(value: int) -> float:
        return (values.count(value) + 1) / (len(values) + 3)

    expected = 0.0
    for given, value in pairs:
        matching = [pair for pair in pairs if pair[0] == given]
        expected -= math.log((matching.count((given, value)) + 10 * frequency(value)) / (len(matching) + 10))
    baseline = NearestVisible(codec, LinearHeadSpec())
    baseline.fit(batch)
    baseline.update(batch)
    assert baseline.pop_nats() == pytest.approx(expected / len(pairs), rel=1e-6)


@pytest.mark.parametrize("kind", [NearestVisible, VisibleHistogram])
def test_an_image_of_which_nothing_is_visible_leaves_the_unigram(
    kind: type[NearestVisible | VisibleHistogram],
) -> None:
    codes = CODEC.encode(HELD_OUT)
    hidden = torch.ones(len(codes), GRID.positions, 1, dtype=torch.bool)
    batch = TrainingBatch.with_equal_weights(HELD_OUT, hidden, codes, hidden).masked_codes(CODEC)
    baseline = kind(CODEC, LinearHeadSpec())
    for each in batches(HALF, TRAIN):
        baseline.fit(each.masked_codes(CODEC))
    expected = -sum(math.log(unigram(value)) for value in codes.flatten().tolist()) / codes.numel()
    baseline.update(batch)
    assert baseline.pop_nats() == pytest.approx(expected, rel=1e-6)


def test_exact_matches_are_of_the_masked_codes() -> None:
    codes = torch.tensor([[[[2, 0, 0, 1]]]])
    hidden = torch.tensor([[[[True, False, True, False]]]])
    batch = MaskedCodes(codes, codes, ~hidden, hidden, torch.ones(1, dtype=torch.float64))
    assert exact_matches(batch, [2])["most frequent value"] == 0.5
    assert exact_matches(batch, [1])["most frequent value"] == 0
    assert set(exact_matches(batch, ())) == {"nearest visible"}
    assert exact_matches(batch, ())["nearest visible"] in (0.0, 0.5)  # 0, or one of the equally near 0 and 1
