"""A study with made-up numbers, two seeds a kind."""

from itertools import product

from isopix.studies.inductive_bias.trials import Cell, Group, groups

BLOCKS, ENCODINGS, DEPTHS = ("conv", "mixer", "transformer-1"), ("pix2vec", "fourier"), (1, 3)


def study(seeds: int = 2) -> list[Group]:
    """Every number differs from every other."""
    cells = []
    kinds = product(BLOCKS, ENCODINGS, DEPTHS, range(seeds))
    for place, (block, encoding, depth, seed) in enumerate(kinds):
        layers = tuple(0.2 + 0.01 * layer + 0.001 * place for layer in range(depth + 1))
        cells.append(Cell(block, encoding, depth, seed, 4 - 0.02 * place, layers, layers, depth))
    return groups(cells)
