"""Mask ensembles: predictions for the same images under several masks are combined (iGPT section 4.6)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.types import Labels


def mode(predictions: Int[Tensor, "K B"], generator: torch.Generator) -> Labels:
    """Return the most frequent of K predictions per image; ties are broken at random.

    The random numbers do not depend on the device of the predictions.
    """
    counts = F.one_hot(predictions).sum(0)
    draws = torch.rand(counts.shape, generator=generator, dtype=torch.float64).to(counts.device)
    return draws.masked_fill(counts < counts.amax(-1, keepdim=True), -1.0).argmax(-1)


def mean_probability(probabilities: Float[Tensor, "K B C"]) -> Labels:
    """Return the class of the highest mean probability; the first of equals."""
    return probabilities.mean(0).argmax(-1)
