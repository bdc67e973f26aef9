"""Metrics of a trained network: color errors, encodings and inductive biases."""

from typing import Any

from isopix.analysis.color_error import color_error
from isopix.analysis.inductive_biases import BiasMeasurements, measure_inductive_biases
from isopix.analysis.similarity import stem_similarity
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate.reconstruct import Reconstruction, reconstruct_images
from isopix.runs.load import LoadedRun

RECONSTRUCTION_IMAGES = 256  # for the color errors
BIAS_IMAGES = 64  # for the inductive biases


def measure(loaded: LoadedRun, images: Images) -> dict[str, Any]:
    """Return color errors of reconstructions, distance preservation by channel, and biases by layer.

    `images` were not trained on. Raises ValueError for an autoregressive network.
    """
    network, seed = loaded.network, loaded.recipe.train.seed
    found = reconstruct_masked(loaded, images[:RECONSTRUCTION_IMAGES], seed)
    error = color_error(found.target, found.mask, found.prediction)
    encodings = stem_similarity(network.backbone.stem.value_table())
    bias = measure_inductive_biases(network, images[:BIAS_IMAGES], generator(seed, "biases"))
    return {
        "color_error": {
            "mean_absolute": error.mean_absolute,
            "histogram": error.histogram,
            "misplaced_fraction": error.misplaced_fraction,
            "exact_fraction": found.accuracy,
        },
        "distance_preservation": [each.distance_preservation for each in encodings],
        "effective_rank": [each.effective_rank for each in encodings],
        **bias_numbers(bias),
    }


def bias_numbers(bias: BiasMeasurements) -> dict[str, Any]:
    """Return the inductive biases by layer."""
    return {
        "translation_error": bias.translation_error,
        "permutation_error": bias.permutation_error,
        "receptive_field_mean": [each.mean_distance for each in bias.receptive_field],
        "receptive_field_radius_95": [each.radius_95 for each in bias.receptive_field],
    }


def reconstruct_masked(loaded: LoadedRun, images: Images, seed: int) -> Reconstruction:
    """Return reconstructions on the CPU, under the masks that metrics and figures share."""
    images = images.to(loaded.network.device)
    return reconstruct_images(loaded.model, images, generator=generator(seed, "hide")).cpu()
