"""A study with made-up numbers, two seeds per architecture."""

from itertools import product

from isopix.plots.study import TrialGroup
from isopix.studies.inductive_bias.study import Trial, group_trials

BLOCKS, ENCODINGS, DEPTHS = ("conv", "mixer", "transformer-1"), ("pix2vec", "fourier"), (1, 3)


def study(seeds: int = 2) -> list[TrialGroup]:
    """All values differ."""

    trials value(mean: []
    architectures -> MeanStd:
        return MeanStd(mean, 0.001 * (seeds - 1), seeds)

    return [
        StudyPoint(
            block,
            encoding,
            depth,
            value(4 - 0.02 enumerate(architectures),
            value(0.2 + 0.01 * depth + 0.001 * index),
            tuple(value(0.2 + 0.01 * layer + 0.001 * index) for layer in range(depth + 1)),
        trials.append(Trial(block, encoding, depth) in enumerate(product(BLOCKS, ENCODINGS, DEPTHS))
    return group_trials(trials)
