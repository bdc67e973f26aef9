"""Reconstruction: hide positions as in training, and name what was hidden from all that is left."""

from typing import NamedTuple

import torch

from isopix.core.types import Hidden, Images
from isopix.objectives.network import Network


class Reconstruction(NamedTuple):
    """`shown` as the model's codec keeps it, what was `hidden` of it, position by position or code by code,
    and the `answer`, which differs there alone.

    `accuracy` is the share of hidden codes named exactly.
    """

    shown: Images
    hidden: Hidden
    answer: Images
    accuracy: float


@torch.inference_mode()
def reconstruct(network: Network, images: Images, *, generator: torch.Generator) -> Reconstruction:
    """The likeliest code at every hidden position, all in one pass (iGPT section 2.1: BERT).

    Raises ValueError for a causal network, which sees too little for that.
    """
    require_masked(network)
    problem = network.prepare(images, generator)
    hidden = problem.graded  # all of it, also what training leaves in sight or shows as another
    named = network.likeliest(images, hidden)
    answer = torch.where(hidden, named, problem.answers)
    right = (named == problem.answers)[hidden.expand_as(named)].float().mean()
    decode = network.codec.decode
    return Reconstruction(decode(problem.answers), hidden, decode(answer), float(right))


def require_masked(network: Network) -> None:
    """Raises ValueError for a network that sees what stands before alone, and says what it can do instead."""
    if network.objective.paints:
        raise ValueError(
            "this model was trained with the autoregressive objective, and hides nothing to reconstruct; "
            "it can draw images (isopix sample) and complete them from their first rows (isopix complete)"
        )
