"""Votes: several answers about the same images, as under several masks, become one (iGPT section 4.6)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from isopix.core.types import Labels


def modal(predictions: Int[Tensor, "K B"], generator: torch.Generator) -> Labels:
    """The class that most of K predictions name; among equally many one at random.

    One prediction is returned as it is. The draws do not depend on the predictions' device.
    """
    counts = F.one_hot(predictions).sum(0)
    draws = torch.rand(counts.shape, generator=generator, dtype=torch.float64).to(counts.device)
    return draws.masked_fill(counts < counts.amax(-1, keepdim=True), -1.0).argmax(-1)


def mean_probability(probabilities: Float[Tensor, "K B C"]) -> Labels:
    """The class of the highest mean probability; the first of equals."""
    return probabilities.mean(0).argmax(-1)
