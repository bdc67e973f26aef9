"""Metrics of a trained network: color errors, encodings and inductive biases."""

from typing import Any

from isopix.analysis import inductive_biases
from isopix.analysis.color_error import colour_error
from isopix.analysis.similarity import of_stem
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate.reconstruct import Reconstruction, reconstruct
from isopix.objectives.network import Network
from isopix.runs.load import Loaded

RECONSTRUCTION_IMAGES = 256  # for the color errors
BIAS_IMAGES = 64  # for the inductive biases


def measure(loaded: Loaded, images: Images) -> dict[str, Any]:
    """Return color errors of reconstructions, distance preservation by channel, and biases by layer.

    `images` were not trained on. Raises ValueError for an autoregressive network.
    """
    network, seed = loaded.network, loaded.recipe.seed
    found = reconstruct_masked(network, images[:RECONSTRUCTION_IMAGES], seed)
    error = colour_error(found.target, found.hidden, found.answer)
    stem: Any = network.backbone.stem  # torch's own type hides its methods
    encodings = of_stem(stem.vectors())
    bias = inductive_biases.measure(network.backbone, images[:BIAS_IMAGES], generator(seed, "biases"))
    return {
        "color_error": {**error._asdict(), "misplaced": error.misplaced, "exact": found.accuracy},
        "preservation": [each.preservation for each in encodings],
        "rank": [each.rank for each in encodings],
        "translation": bias.translation,
        "permutation": bias.order,
        "reach": [each.mean for each in bias.reach],
        "radius": [each.radius for each in bias.reach],
    }


def reconstruct_masked(network: Network, images: Images, seed: int) -> Reconstruction:
    """Return reconstructions on the CPU, under the masks that metrics and figures share."""
    return reconstruct(network, images.to(network.device), generator=generator(seed, "hide")).cpu()
