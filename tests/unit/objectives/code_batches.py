"""Batches of few codes for the tests of baselines, and their losses written out in Python."""

import math
from collections.abc import Callable
from itertools import product

import torch

from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.heads import LinearHeadSpec
from isopix.objectives.base import TrainingBatch
from isopix.objectives.baselines import Baseline
from isopix.objectives.masks import BernoulliMask
from isopix.objectives.objectives import Autoregressive, Masked

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
