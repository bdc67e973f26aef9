"""Cells: what a study of many networks leaves of each of them, and their means over seeds."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np


class Cell(NamedTuple):
    """A trained and probed cell of the study; loss in nats a hidden sub-pixel, accuracies shares of 1."""

    block: str  # conv, mixer, transformer-1, transformer-4
    encoding: str  # pix2vec, fourier, continuous
    depth: int
    seed: int
    loss: float  # at the end, on validation images; nothing is chosen by it
    accuracies: tuple[float, ...]  # of a probe of every layer 0..L, on test images
    validations: tuple[float, ...]  # the same on validation images, by which alone anything is chosen
    best: int  # the layer that validation chose

    @property
    def accuracy(self) -> float:
        """Of the layer that validation chose."""
        return self.accuracies[self.best]

    @property
    def validation(self) -> float:
        """Of the same layer, on the images that chose it."""
        return self.validations[self.best]

    @property
    def kind(self) -> tuple[str, str, int]:
        """All but the seed."""
        return self.block, self.encoding, self.depth


class Spread(NamedTuple):
    """The mean over so many seeds, and their standard deviation (n - 1; 0 for one, which has none)."""

    mean: float
    deviation: float
    seeds: int


class Group(NamedTuple):
    """One kind of network, over its seeds."""

    block: str
    encoding: str
    depth: int
    loss: Spread
    accuracy: Spread  # of the layer that validation chose in each
    layers: tuple[Spread, ...]  # accuracy of each layer 0..L


def groups(cells: Sequence[Cell]) -> list[Group]:
    """A group for each kind of network, in the order in which the kinds first come."""
    order = list(dict.fromkeys(cell.kind for cell in cells))
    ordered = sorted(cells, key=lambda cell: order.index(cell.kind))
    return [_group(kind, list(same)) for kind, same in groupby(ordered, key=lambda cell: cell.kind)]


def spread(values: Sequence[float]) -> Spread:
    """Mean and deviation of at least one number."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(np.mean(values)), deviation, len(values))


def _group(kind: tuple[str, str, int], cells: Sequence[Cell]) -> Group:
    layers = zip(*(cell.accuracies for cell in cells), strict=True)
    return Group(
        *kind,
        loss=spread([cell.loss for cell in cells]),
        accuracy=spread([cell.accuracy for cell in cells]),
        layers=tuple(spread(layer) for layer in layers),
    )
