"""Means and standard deviations over seeds of the inductive biases by layer."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from isopix.studies.inductive_bias.examples import Example
from isopix.studies.inductive_bias.metrics import bias_numbers
from isopix.studies.inductive_bias.trials import Architecture, mean_std

Measurements = Mapping[tuple[Architecture, int], Mapping[str, Any]]  # by architecture and seed
Layer = dict[str, float | int]
NAMES = ("translation_error", "permutation_error", "receptive_field_mean")


class LayerBiases(NamedTuple):
    """Means and standard deviations over `seeds` seeds; each has a record per layer."""

    means: list[Layer]
    stds: list[Layer]
    seeds: int


def example_biases(example: Example, measurements: Measurements) -> LayerBiases:
    """Return the biases of the architecture of an example over its seeds; those of the example itself where
    nothing was measured.
    """
    own = [
        each for (key, _), each in measurements.items() if key == (example.block, "pix2vec", example.depth)
    ]
    own = own or [bias_numbers(example.biases)]
    layers = [
        {name: mean_std([each[name][layer] for each in own]) for name in NAMES}
        for layer in range(example.depth + 1)
    ]
    means = [
        {"layer": i, **{name: each.mean for name, each in layer.items()}} for i, layer in enumerate(layers)
    ]
    stds = [
        {"layer": i, **{name: each.std for name, each in layer.items()}} for i, layer in enumerate(layers)
    ]
    return LayerBiases(means, stds, len(own))
