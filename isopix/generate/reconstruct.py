"""Reconstruction: mask positions as in training, and predict their codes from the visible positions."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import torch

from isopix.core.types import Images, Mask
from isopix.generate.mask import PixelMask, hidden_pixels
from isopix.generate.sample import require
from isopix.objectives.base import PretrainModel
from isopix.objectives.visible_baselines import exact_matches


class Reconstruction(NamedTuple):
    """The `original` images as the network reads them, the `mask`, by position or by code, and two copies of
    the original whose masked positions hold the `target` codes, or the network's `prediction` of them.

    `accuracy` is the fraction of codes in the loss predicted exactly, `baselines` that of learning-free
    predictions by name.
    """

    original: Images
    mask: Mask
    target: Images
    prediction: Images
    accuracy: float
    baselines: Mapping[str, float] = MappingProxyType({})

    @property
    def pixel_mask(self) -> PixelMask:
        """True for the pixels of a position of which any code is masked."""
        return hidden_pixels(self.mask, self.original)

    def cpu(self) -> "Reconstruction":
        """Return a copy on the CPU."""
        original, mask, target, prediction = (part.cpu().clone() for part in self[:4])
        return Reconstruction(original, mask, target, prediction, self.accuracy, self.baselines)


@torch.inference_mode()
def reconstruct_images(
    model: PretrainModel, images: Images, *, generator: torch.Generator, modes: Sequence[int] = ()
) -> Reconstruction:
    """Predict masked codes in one pass (iGPT section 2.1), from the inputs and under the mask of the
    objective's batch. Raises ValueError if the network masks none.

    `modes` are the most frequent values of the channels of a code in training images, a baseline.
    """
    require(model, "reconstruct")
    network, codec = model.network, model.network.codec
    batch = model.make_reconstruction_batch(images, generator)
    assert batch.mask is not None, "the objective masks inputs"
    mask = batch.mask
    predicted = network.predict(batch.inputs, mask)
    correct = (predicted == batch.targets)[batch.loss_mask.expand_as(predicted)].float().mean()
    original = network.visible_pixels(images)
    pixels = hidden_pixels(mask, images)[:, None]
    target, prediction = (
        torch.where(pixels, codec.decode(codes), original)
        for codes in (batch.targets, torch.where(mask, predicted, batch.targets))
    )
    baselines = exact_matches(batch.masked_codes(codec), modes)
    return Reconstruction(original, mask, target, prediction, float(correct), baselines)
