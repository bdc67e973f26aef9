"""Similarity of embeddings of the 256 levels of a channel (Cazenavette and Lucey 2021, figures 2, 3 and 5).

*Distance preservation* is Spearman's correlation of similarity and -|p - q| over all pairs of levels.
*Effective rank* is exp of the entropy of the normalized singular values (Roy and Vetterli 2007).
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from isopix.core.stats import pearson_coefficient, rankdata
from isopix.model.stems.pixels import LEVELS

SIMILARITY_DIGITS = 12  # similarities that differ by rounding errors only share a rank

SimilarityMatrix = Float[np.ndarray, "K K"]


class LevelSimilarity(NamedTuple):
    """Similarity of each pair of levels, -1 to 1, with its two summary statistics."""

    similarity: SimilarityMatrix
    distance_preservation: float  # -1 to 1
    effective_rank: float  # 1 to the number of levels


def one_hot_similarity(levels: int = LEVELS) -> LevelSimilarity:
    """Return the similarity of one-hot vectors: no distance preservation, full effective rank."""
    return embedding_similarity(torch.eye(levels))


def continuous_similarity(levels: int = LEVELS) -> LevelSimilarity:
    """Return 1 - |p - q| / (levels - 1), as the cosine similarity of two scalars is always 1 or -1."""
    level = np.arange(levels)
    similarity = 1 - np.abs(level[:, None] - level) / (levels - 1)
    return LevelSimilarity(similarity, distance_preservation(similarity), 1.0)


def fourier_similarity(frequencies: Float[Tensor, " F"], levels: int = LEVELS) -> LevelSimilarity:
    """Return the similarity of Fourier features of levels scaled to [-1, 1]; frequencies include sigma."""
    angles = 2 * torch.pi * frequencies.double() * torch.linspace(-1, 1, levels).double()[:, None]
    return embedding_similarity(torch.cat([angles.sin(), angles.cos()], 1))


def embedding_similarity(table: Float[Tensor, "K D"]) -> LevelSimilarity:
    """Return the cosine similarity of the rows of an embedding table; a zero vector has similarity 0."""
    table = table.detach().cpu().double()
    unit = F.normalize(table, dim=1)
    similarity = (unit @ unit.T).numpy()
    return LevelSimilarity(similarity, distance_preservation(similarity), effective_rank(table))


def distance_preservation(similarity: SimilarityMatrix) -> float:
    """Return Spearman's correlation of similarity and -|p - q| over pairs p < q; 0 if constant."""
    p, q = np.triu_indices(len(similarity), 1)
    rounded = similarity[p, q].round(SIMILARITY_DIGITS)
    return pearson_coefficient(rankdata(rounded), rankdata((p - q).astype(float))) or 0.0


def effective_rank(table: Float[Tensor, "K D"]) -> float:
    """Return exp of the entropy of the normalized singular values; 0 for an all-zero table."""
    values = torch.linalg.svdvals(table.double())
    if not values.any():
        return 0.0
    return float(torch.special.entr(values / values.sum()).sum().exp())
