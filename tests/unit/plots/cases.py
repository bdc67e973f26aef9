"""A study with made-up numbers."""

from itertools import product

from isopix.plots.study import MeanStd, StudyPoint

BLOCKS, ENCODINGS, DEPTHS = ("conv", "mixer", "transformer-1"), ("pix2vec", "fourier"), (1, 3)


def study(seeds: int = 2) -> list[StudyPoint]:
    """All values differ."""

    def value(mean: float) -> MeanStd:
        return MeanStd(mean, 0.001 * (seeds - 1), seeds)

    return [
        StudyPoint(
            block,
            encoding,
            depth,
            value(4 - 0.02 * index),
            value(0.2 + 0.01 * depth + 0.001 * index),
            tuple(value(0.2 + 0.01 * layer + 0.001 * index) for layer in range(depth + 1)),
        )
        for index, (block, encoding, depth) in enumerate(product(BLOCKS, ENCODINGS, DEPTHS))
    ]
