"""Baselines against sums over every code, and sizes of files, written out in Python."""

import io
import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.codecs.palette_spec import PaletteSpec
from isopix.codecs.patches import BytesSpec, GrayThumbnailSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.heads import LinearHeadSpec, RegressionHeadSpec
from isopix.objectives.base import TrainingBatch
from isopix.objectives.baselines import (
    Baseline,
    LeftNeighbor,
    LosslessFile,
    MaskedCodes,
    PairBaseline,
    PNGFile,
    TopNeighbor,
    WebPFile,
    code_map,
)
from isopix.objectives.masks import BernoulliMask
from isopix.objectives.objectives import Autoregressive, Masked
from isopix.objectives.visible_baselines import NearestVisible, VisibleHistogram, nearest_visible

ROWS, COLS = 4, 5
GRID = Grid(ROWS, COLS)
GRAYS = torch.tensor([0, 40, 200])
TRAIN, HELD_OUT = (
    GRAYS[torch.randint(3, (count, 1, ROWS, COLS), generator=generator(seed, "pixels"))]
    .to(torch.uint8)
    .expand(-1, 3, -1, -1)
    .contiguous()
    for seed, count in ((0, 9), (1, 5))
)
CODEC = PaletteSpec(num_colors=3).fit(TRAIN, GRID, 0)
HALF = Masked(mask=BernoulliMask(ratio=0.5))
Objective = Autoregressive | Masked
Picture = list[list[int]]
Predict = Callable[[Picture, Picture, int, int], float]


def batches(objective: Objective, images: torch.Tensor) -> list[TrainingBatch]:
    """Batches of two images, the last one of one."""
    parts = images.split(2)
    return [objective.make_batch(part, CODEC, generator(0, "mask", i)) for i, part in enumerate(parts)]


def loss(baseline: type[Baseline], objective: Objective) -> float:
    """The loss of a baseline that has counted TRAIN on HELD_OUT."""
    fitted = baseline(CODEC, LinearHeadSpec())
    for batch in batches(objective, TRAIN):
        fitted.fit(batch.masked_codes(CODEC))
    for batch in batches(objective, HELD_OUT):
        fitted.update(batch.masked_codes(CODEC))
    return fitted.pop_nats()


def picture(codes: torch.Tensor) -> Picture:
    values: Picture = codes.reshape(ROWS, COLS).tolist()
    return values


def expected_loss(predict: Predict, objective: Objective) -> float:
    """The mean over images of the mean of -ln predict(codes, hidden, row, col) over the codes in the loss."""
    means = []
    for batch in batches(objective, HELD_OUT):
        for codes, chosen in zip(batch.targets, batch.loss_mask, strict=True):
            image, hidden = picture(codes), picture(chosen)
            places = [each for each in product(range(ROWS), range(COLS)) if hidden[each[0]][each[1]]]
            means.append(-sum(math.log(predict(image, hidden, *each)) for each in places) / len(places))
    return sum(means) / len(means)


def unigram(value: int) -> float:
    """The frequency of a value in TRAIN, with one added."""
    counts = CODEC.encode(TRAIN).flatten().tolist()
    return (counts.count(value) + 1) / (len(counts) + 3)


def pair_probability(pairs: list[tuple[int, int]], given: int, value: int) -> float:
    """The frequency of a value given another one among pairs, with ten pairs of the unigram."""
    count, of = pairs.count((given, value)), sum(1 for first, _ in pairs if first == given)
    return (count + 10 * unigram(value)) / (of + 10)


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
    found = nearest_visible(batch.codes, batch.visible)
    for image, channel, row, col in product(range(3), range(2), range(6), range(7)):
        seen = batch.visible[image, channel].nonzero().tolist()
        least = min(math.dist(each, (row, col)) for each in seen)
        nearest = {
            int(batch.codes[image, channel, r, c])
            for r, c in seen
            if math.dist((r, c), (row, col)) == pytest.approx(least)
        }
        assert int(found[image, channel, row, col]) in nearest


@pytest.mark.parametrize("kind", [NearestVisible, VisibleHistogram])
def test_an_image_of_which_nothing_is_visible_leaves_the_unigram(
    kind: type[NearestVisible | VisibleHistogram],
) -> None:
    codes = CODEC.encode(HELD_OUT)
    in_loss = torch.arange(GRID.positions)[:, None].expand(codes.shape) % 2 == 0  # and the others masked
    batch = TrainingBatch.with_equal_weights(HELD_OUT, ~in_loss, codes, in_loss).masked_codes(CODEC)
    baseline = kind(CODEC, LinearHeadSpec())
    for each in batches(HALF, TRAIN):
        baseline.fit(each.masked_codes(CODEC))
    expected = -sum(math.log(unigram(value)) for value in codes[in_loss].tolist()) / int(in_loss.sum())
    baseline.update(batch)
    assert baseline.pop_nats() == pytest.approx(expected, rel=1e-6)


KINDS = [PNGFile, WebPFile]


def nats(kind: type[LosslessFile], images: torch.Tensor) -> float:
    """The loss of images of bytes, in batches of three."""
    codec = BytesSpec().fit(images, Grid(*images.shape[2:]), 0)
    baseline = kind(codec, LinearHeadSpec())
    for part in images.split(3):
        batch = Autoregressive().make_batch(part, codec, generator(0, "none"))
        baseline.update(batch.masked_codes(codec))
    return baseline.pop_nats()


def noise(count: int, side: int, levels: int) -> torch.Tensor:
    draw = generator(0, "noise")
    return torch.randint(levels, (count, 3, side, side), generator=draw).to(torch.uint8)


@pytest.mark.parametrize(
    ("kind", "settings"), [(PNGFile, {"optimize": True}), (WebPFile, {"lossless": True})]
)
def test_the_loss_is_the_size_of_one_file_of_all_images(
    kind: type[LosslessFile], settings: dict[str, bool]
) -> None:
    images = noise(4, 16, 256)
    rows = [np.concatenate([*images[start : start + 2].permute(0, 2, 3, 1).numpy()], 1) for start in (0, 2)]
    content = io.BytesIO()
    options = settings | ({"quality": 100} if kind is WebPFile else {})
    Image.fromarray(np.concatenate(rows)).save(content, format=kind.name.split()[0], **options)
    expected = 8 * len(content.getvalue()) * math.log(2) / images.numel()
    assert not kind.applies(BytesSpec().placeholder(Grid(4, 4)), RegressionHeadSpec())
    assert nats(kind, images) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_few_colors_has_a_palette(kind: type[LosslessFile]) -> None:
    """16 grays are 4 bits per pixel, a third of that per byte, and not three times as much."""
    grays = noise(20, 32, 16)[:, :1].expand(-1, 3, -1, -1).contiguous() * 16
    assert nats(kind, grays) == pytest.approx(4 * math.log(2) / 3, rel=0.1)
