"""Measuring: what a trained cell of the study shows beside its loss and its probe, as plain numbers."""

from typing import Any

from isopix.analysis import inductive_biases
from isopix.analysis.color_error import colour_error
from isopix.analysis.similarity import of_stem
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate.reconstruct import Reconstruction, reconstruct
from isopix.objectives.base import PretrainModel
from isopix.runs.load import Loaded

RECONSTRUCTED = 256  # images of which the colour errors are the mean
BIASED = 64  # images of which the biases are the mean


def measured(loaded: Loaded, images: Images) -> dict[str, Any]:
    """Errors of reconstructions, what the encoding keeps of distance by channel, and biases by layer.

    `images` have not been trained on. Raises ValueError for an autoregressive network.
    """
    network, seed = loaded.network, loaded.recipe.train.seed
    found = reconstructed(loaded.model, images[:RECONSTRUCTED], seed)
    error = colour_error(found.target, found.hidden, found.answer)
    learnt = of_stem(network.backbone.stem.value_table())
    bias = inductive_biases.measure(network, images[:BIASED], generator(seed, "biases"))
    return {
        "colours": {**error._asdict(), "misplaced": error.misplaced, "exact": found.accuracy},
        "preservation": [each.preservation for each in learnt],
        "rank": [each.rank for each in learnt],
        "translation": bias.translation,
        "order": bias.order,
        "reach": [each.mean for each in bias.reach],
        "radius": [each.radius for each in bias.reach],
    }


def reconstructed(model: PretrainModel, images: Images, seed: int) -> Reconstruction:
    """Reconstructions under the masks that measuring and pictures share, on the CPU."""
    return reconstruct(model, images.to(model.network.device), generator=generator(seed, "hide")).cpu()
