"""Reconstruction: mask positions as in training, and predict their codes from the visible positions."""

from math import isqrt
from typing import NamedTuple

import torch
from einops import repeat
from jaxtyping import Bool
from torch import Tensor

from isopix.core.types import Images, Mask
from isopix.objectives.network import Network

PixelMask = Bool[Tensor, "B H W"]


class Reconstruction(NamedTuple):
    """The `original` images as the network reads them, the `mask`, by position or by code, and two copies of
    the original whose masked positions hold the `target` codes, or the network's `prediction` of them.

    `accuracy` is the fraction of masked codes predicted exactly.
    """

    original: Images
    mask: Mask
    target: Images
    prediction: Images
    accuracy: float

    @property
    def pixel_mask(self) -> PixelMask:
        """True for the pixels of a position of which any code is masked."""
        return _pixel_mask(self.mask, self.original)

    def cpu(self) -> "Reconstruction":
        """Return a copy on the CPU."""
        original, mask, target, prediction = (part.cpu().clone() for part in self[:4])
        return Reconstruction(original, mask, target, prediction, self.accuracy)


@torch.inference_mode()
def reconstruct(network: Network, images: Images, *, generator: torch.Generator) -> Reconstruction:
    """Predict the most likely code of every masked position in one pass (BERT; iGPT section 2.1).

    Raises ValueError for a network that masks no inputs.
    """
    require_masked_inputs(network)
    batch = network.prepare(images, generator)
    mask, codec = batch.graded, network.codec  # also the positions that training keeps visible or replaces
    predicted = network.likeliest(images, mask)
    correct = (predicted == batch.answers)[mask.expand_as(predicted)].float().mean()
    original: Images = network.backbone.stem.seen(images)
    pixels = _pixel_mask(mask, images)[:, None]
    target, prediction = (
        torch.where(pixels, codec.decode(codes), original)
        for codes in (batch.answers, torch.where(mask, predicted, batch.answers))
    )
    return Reconstruction(original, mask, target, prediction, float(correct))


def require_masked_inputs(network: Network) -> None:
    """Raise ValueError for an autoregressive network, which has no masked positions to reconstruct."""
    if network.objective.paints:
        raise ValueError(
            "this model was trained with the autoregressive objective, which masks no inputs to reconstruct; "
            "it can sample images (isopix sample) and complete them from their first rows (isopix complete)"
        )


def _pixel_mask(mask: Mask, images: Images) -> PixelMask:
    height, width = images.shape[2:]
    side = isqrt(height * width // mask.shape[1])
    return repeat(mask.any(-1), "b (h w) -> b (h p) (w q)", h=height // side, p=side, q=side)
