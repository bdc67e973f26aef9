"""Pixel embeddings: what they compute, and the similarity of two values."""

import math

import pytest
import torch

from isopix.codecs.patches import Bytes
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.model.init import initialize
from isopix.model.masking import sum_components
from isopix.model.stems.pixels import (
    FourierFeatures,
    FourierPixelEmbeddingSpec,
    LinearPixelEmbeddingSpec,
    PixelEmbedding,
)

GRID, WIDTH = Grid(3, 4), 5
MANY = 20_000  # frequencies, at which a mean of cosines strays by less than 0.04 (eight standard deviations)


def build(stem: FourierPixelEmbeddingSpec | LinearPixelEmbeddingSpec) -> PixelEmbedding:
    """In float64, every parameter random."""
    built = stem.build(Bytes(GRID), WIDTH).double()
    with torch.no_grad():
        for tensor in (*built.parameters(), *built.buffers()):
            tensor.copy_(torch.randn(tensor.shape, generator=generator(0, "stem"), dtype=torch.float64))
    return built


def pixels() -> Images:
    return torch.randint(256, (2, 3, *GRID), dtype=torch.uint8, generator=generator(0, "images"))


def test_linear_is_one_linear_layer_of_scaled_pixels() -> None:
    stem, images = build(LinearPixelEmbeddingSpec()), pixels()
    scaled = (images.double() - 127.5) / 127.5
    expected = scaled.flatten(2).mT @ stem.project.weight.T + stem.bias.sum(0)
    torch.testing.assert_close(sum_components(stem(images)), expected)


def test_fourier_is_one_linear_layer_of_sines_and_cosines() -> None:
    """Number by number: channel after channel, frequency after frequency, a sine and a cosine."""
    stem, images = build(FourierPixelEmbeddingSpec(sigma=0.7, frequencies=3)), pixels()
    for b, row, col in ((0, 0, 0), (1, 2, 3), (1, 1, 2)):
        features = []
        for channel in range(3):
            p = (float(images[b, channel, row, col]) - 127.5) / 127.5
            for normal in stem.features.normals[channel].tolist():
                turn = 2 * math.pi * 0.7 * normal * p
                features += [math.sin(turn), math.cos(turn)]
        expected = stem.project.weight @ torch.tensor(features, dtype=torch.float64) + stem.bias.sum(0)
        torch.testing.assert_close(sum_components(stem(images))[b, row * GRID.cols + col], expected)


@pytest.mark.parametrize(("sigma", "expected"), [(0.0, 1.0), (1.0, 0.8209), (3.0, 0.1693), (50.0, 0.0)])
def test_similarity_falls_faster_with_sigma(sigma: float, expected: float) -> None:
    """At a distance of 0.1 (SPEC: 0.821 for sigma 1)."""
    features = FourierFeatures(FourierPixelEmbeddingSpec(sigma=sigma, frequencies=MANY)).double()
    features.normals.copy_(torch.randn(3, MANY, generator=generator(0, "stem")))
    values = torch.linspace(-1, 1, 256, dtype=torch.float64).clone()
    values[1] = values[0] + 0.1
    vectors = features(values)
    for channel in range(3):
        alike = float(vectors[channel, 0] @ vectors[channel, 1] / MANY)
        assert alike == pytest.approx(expected, abs=0.04)


def test_frequencies_are_drawn_from_the_seed_saved_and_not_learned() -> None:
    def drawn(seed: int) -> PixelEmbedding:
        stem = FourierPixelEmbeddingSpec(frequencies=500).build(Bytes(GRID), WIDTH)
        network = torch.nn.ModuleDict({"stem": stem})
        table = {"stem": FourierPixelEmbeddingSpec().init("keras")}
        initialize(network, table, width=WIDTH, depth=1, generator=generator(seed, "initialise"))
        return stem

    normals = drawn(0).state_dict()["features.normals"]
    assert torch.equal(normals, drawn(0).features.normals)
    assert not torch.equal(normals, drawn(1).features.normals)
    assert float(normals.std()) == pytest.approx(1, abs=5 / math.sqrt(2 * 1500))
    assert "features.normals" not in dict(drawn(0).named_parameters())
