"""A study with made-up numbers, two seeds per architecture."""

from itertools import product

from isopix.plots.study import MeanStd, PoolResults, TrialGroup

BLOCKS, ENCODINGS, DEPTHS = ("conv", "mixer", "transformer-1"), ("pix2vec", "fourier"), (1, 3)
BASELINES = {"raw pixels": 0.32, "raw pixels, PCA": 0.31, "chance": 0.1}


def results(seeds: int = 2, pool: str = "mean") -> PoolResults:
    """Every number differs from every other."""
    trained, untrained = [], []
    for place, (block, encoding, depth) in enumerate(product(BLOCKS, ENCODINGS, DEPTHS)):
        layers = tuple(_spread(0.5 + 0.01 * layer + 0.001 * place, seeds) for layer in range(depth + 1))
        before = tuple(_spread(0.2 + 0.01 * layer + 0.001 * place, seeds) for layer in range(depth + 1))
        loss = _spread(4 - 0.02 * place, seeds)
        trained.append(TrialGroup(block, encoding, depth, loss, layers[-1], layers, before[-1]))
        untrained.append(TrialGroup(block, encoding, depth, loss, before[-1], before, before[-1]))
    return PoolResults(pool, trained, untrained, BASELINES)


def _spread(mean: float, seeds: int) -> MeanStd:
    return MeanStd(mean, 0.01 * (seeds > 1), seeds)
