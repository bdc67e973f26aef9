"""Measuring: what a trained cell of the study shows beside its loss and its probe, as plain numbers."""

from typing import Any

from isopix.analysis.color_error import color_error
from isopix.analysis.inductive_biases import measure_inductive_biases
from isopix.analysis.similarity import stem_similarity
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate.reconstruct import Reconstruction, reconstruct
from isopix.objectives.network import Network
from isopix.runs.load import Loaded

RECONSTRUCTED = 256  # images of which the colour errors are the mean
BIASED = 64  # images of which the biases are the mean


def measured(loaded: Loaded, images: Images) -> dict[str, Any]:
    """Errors of reconstructions, what the encoding keeps of distance by channel, and biases by layer.

    `images` have not been trained on. Raises ValueError for an autoregressive network.
    """
    network, seed = loaded.network, loaded.recipe.train.seed
    found = reconstructed(network, images[:RECONSTRUCTED], seed)
    error = color_error(found.target, found.mask, found.prediction)
    stem: Any = network.backbone.stem  # torch's own type forgets its methods
    learnt = stem_similarity(stem.vectors())
    bias = measure_inductive_biases(network.backbone, images[:BIASED], generator(seed, "biases"))
    return {
        "colours": {
            "whole": error.mean_absolute,
            "palette": error.histogram,
            "misplaced": error.misplaced_fraction,
            "exact": found.accuracy,
        },
        "preservation": [each.distance_preservation for each in learnt],
        "rank": [each.effective_rank for each in learnt],
        "translation": bias.translation_error,
        "order": bias.permutation_error,
        "reach": [each.mean_distance for each in bias.receptive_field],
        "radius": [each.radius_95 for each in bias.receptive_field],
    }


def reconstructed(network: Network, images: Images, seed: int) -> Reconstruction:
    """Reconstructions under the masks that measuring and pictures share, on the CPU."""
    return reconstruct(network, images.to(network.device), generator=generator(seed, "hide")).cpu()
