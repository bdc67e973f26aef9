"""A study with made-up numbers, two seeds per architecture."""

from itertools import product

from isopix.plots.study import TrialGroup
from isopix.studies.inductive_bias.trials import Trial, group_trials

BLOCKS, ENCODINGS, DEPTHS = ("conv", "mixer", "transformer-1"), ("pix2vec", "fourier"), (1, 3)


def study(seeds: int = 2) -> list[TrialGroup]:
    """Every number differs from every other."""
    trials = []
    architectures = product(BLOCKS, ENCODINGS, DEPTHS, range(seeds))
    for place, (block, encoding, depth, seed) in enumerate(architectures):
        layers = tuple(0.2 + 0.01 * layer + 0.001 * place for layer in range(depth + 1))
        trials.append(Trial(block, encoding, depth, seed, 4 - 0.02 * place, layers, layers, depth))
    return group_trials(trials)
