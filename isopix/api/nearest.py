"""Samples beside the training images that are nearest to them."""

from typing import Any, NamedTuple

import torch

from isopix.analysis.nearest_images import nearest_images
from isopix.api.generation_results import Distances
from isopix.api.image_selection import select_split
from isopix.core.types import Images
from isopix.model.network import Network
from isopix.runs.load import LoadedRun

MAX_HELD_OUT = 256  # images
DIGITS = 3  # decimals of a distance


class TrainingComparison(NamedTuple):
    """The nearest of `num_training` images to each of some images, and the distances of held-out images."""

    images: Images
    distances: Distances
    num_training: int
    held_out: Distances

    def numbers(self) -> dict[str, Any]:
        """Return the numbers for the record of a picture."""
        distances, held_out = (
            [round(each, DIGITS) for each in values.tolist()] for values in (self.distances, self.held_out)
        )
        return {"training_images": self.num_training, "distances": distances, "held_out": held_out}


def compare_with_training(loaded: LoadedRun, images: Images) -> TrainingComparison:
    """Return the nearest training images of the run's dataset to some images [B 3 H W], and the distances of
    at most 256 test images, or validation images, as the network reads them.
    """
    data, _ = select_split(loaded, None, "train", None)
    training = data.train.images
    found = nearest_images(images, training)
    held_out = (data.test if len(data.test) else data.validation).sample(MAX_HELD_OUT).images[:]
    shown = _as_read(loaded.network, held_out)
    distances = nearest_images(shown, training).distances if len(shown) else torch.zeros(0)
    return TrainingComparison(training[found.indices], found.distances, len(training), distances)


def _as_read(network: Network, images: Images) -> Images:
    """Return images in the colors of the codec, in which samples are drawn."""
    codec = network.codec
    codes = codec.encode(images.to(network.device))
    return codec.decode(codes).cpu()
