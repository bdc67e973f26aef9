"""Reconstruction: hide positions as in training, name what was hidden from what is left, and draw it into the
picture.
"""

from math import isqrt
from typing import NamedTuple

import torch
from einops import repeat
from jaxtyping import Bool
from torch import Tensor

from isopix.core.types import Images, Mask
from isopix.objectives.base import PretrainModel

Pixels = Bool[Tensor, "B H W"]


class Reconstruction(NamedTuple):
    """The `original` as the network sees it, and what was `hidden` of it, position by position or code by
    code. `target` and `answer` are the original but for hidden positions: there stand the codes that were
    asked for, and those that the network named.

    `accuracy` is the share of hidden codes named exactly.
    """

    original: Images
    hidden: Mask
    target: Images
    answer: Images
    accuracy: float

    @property
    def unseen(self) -> Pixels:
        """True: a pixel of a position of which anything was hidden."""
        return _pixels(self.hidden, self.original)

    def cpu(self) -> "Reconstruction":
        """A copy of its own on the CPU."""
        original, hidden, target, answer = (part.cpu().clone() for part in self[:4])
        return Reconstruction(original, hidden, target, answer, self.accuracy)


@torch.inference_mode()
def reconstruct(model: PretrainModel, images: Images, *, generator: torch.Generator) -> Reconstruction:
    """The likeliest code at every hidden position, all in one pass (iGPT section 2.1: BERT).

    Raises ValueError for an autoregressive network, which hides nothing.
    """
    require_masked(model)
    network, codec = model.network, model.network.codec
    batch = model.objective.make_batch(images, codec, generator)
    hidden = batch.loss_mask  # all of it, also what training leaves in sight or swaps
    named = network.predict(network.inputs_of(images), hidden)
    answer = torch.where(hidden, named, batch.targets)
    right = (named == batch.targets)[hidden.expand_as(named)].float().mean()
    original = network.visible_pixels(images)
    unseen = _pixels(hidden, images)[:, None]
    target, answered = (
        torch.where(unseen, codec.decode(codes), original) for codes in (batch.targets, answer)
    )
    return Reconstruction(original, hidden, target, answered, float(right))


def require_masked(model: PretrainModel) -> None:
    """Raises ValueError for an autoregressive network, and says what it can do instead."""
    if not model.objective.masks_input:
        raise ValueError(
            "this model was trained with the autoregressive objective, and hides nothing to reconstruct; "
            "it can draw images (isopix sample) and complete them from their first rows (isopix complete)"
        )


def _pixels(hidden: Mask, images: Images) -> Pixels:
    """The pixels of positions of which anything is hidden."""
    height, width = images.shape[2:]
    cell = isqrt(height * width // hidden.shape[1])
    return repeat(hidden.any(-1), "b (h w) -> b (h p) (w q)", h=height // cell, p=cell, q=cell)
