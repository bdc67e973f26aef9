"""Similarity of encodings: how alike the 256 levels of a channel are to a network (inductive biases of small
isotropic nets, figures 2, 3 and 5).

Two numbers sum a picture up. *Distance preservation* is Spearman's correlation of similarity and -|p - q|
over all pairs of two levels: 1 if nearer levels are always more alike. *Effective rank* is exp of the entropy
of the encoding's singular values, divided by their sum (Roy and Vetterli 2007): how many directions it uses.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core.correlation import coefficient, ranks
from isopix.model.stems.base import ValueTable
from isopix.model.stems.pixel_embedding import LEVELS

DIGITS = 12  # of a similarity; levels that are equally alike but for rounding rank equally

Similarity = Float[np.ndarray, "K K"]


class Encoding(NamedTuple):
    """How alike each two levels are, -1 to 1, and what that is worth."""

    similarity: Similarity
    preservation: float  # of distance: 1 perfect, 0 none
    rank: float  # effective, 1 to the number of levels


def one_hot(levels: int = LEVELS) -> Encoding:
    """Every level is like itself alone: no distance is left, and no rank is missing."""
    return of_vectors(torch.eye(levels))


def continuous(levels: int = LEVELS) -> Encoding:
    """The level itself. Its similarity is 1 - |p - q| / (levels - 1), for the cosine of two numbers, 1 or -1,
    would say nothing.
    """
    place = np.arange(levels)
    similarity = 1 - np.abs(place[:, None] - place) / (levels - 1)
    return Encoding(similarity, distance_preservation(similarity), 1.0)


def fourier(frequencies: Float[Tensor, " F"], levels: int = LEVELS) -> Encoding:
    """Fourier features of these frequencies, for levels scaled to [-1, 1]: normal draws times sigma."""
    turns = 2 * torch.pi * frequencies.double() * torch.linspace(-1, 1, levels).double()[:, None]
    return of_vectors(torch.cat([turns.sin(), turns.cos()], 1))


def fourier_limit(sigma: float, levels: int = LEVELS) -> Similarity:
    """What Fourier features tend to with ever more frequencies: exp(-2 pi^2 sigma^2 d^2) at distance d."""
    place = np.linspace(-1, 1, levels)
    return np.exp(-2 * (np.pi * sigma * (place[:, None] - place)) ** 2)


def of_stem(vectors: ValueTable) -> list[Encoding]:
    """What a network has learnt: an encoding for each channel, or code, from `stem.value_table()`."""
    return [of_vectors(table) for table in vectors]


def of_vectors(vectors: Float[Tensor, "K D"]) -> Encoding:
    """Cosine similarity of the vectors that stand for the levels; a zero vector is like none."""
    vectors = vectors.detach().cpu().double()
    unit = F.normalize(vectors, dim=1)
    similarity = (unit @ unit.T).numpy()
    return Encoding(similarity, distance_preservation(similarity), effective_rank(vectors))


def distance_preservation(similarity: Similarity) -> float:
    """Spearman's correlation of similarity and -|p - q| over pairs p < q; 0 if all are equally alike."""
    one, other = np.triu_indices(len(similarity), 1)
    alike = similarity[one, other].round(DIGITS)
    return coefficient(ranks(alike), ranks((one - other).astype(float))) or 0.0


def effective_rank(vectors: Float[Tensor, "K D"]) -> float:
    """exp of the entropy of the singular values as shares of their sum; 0 of nothing but zeros."""
    values = torch.linalg.svdvals(vectors.double())
    if not values.any():
        return 0.0
    return float(torch.special.entr(values / values.sum()).sum().exp())
