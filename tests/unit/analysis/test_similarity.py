"""Similarities match the closed forms of the paper; the two statistics match known cases."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from isopix.analysis import similarity
from isopix.codecs.patches import Bytes
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.stems.pixels import FourierPixelEmbeddingSpec, LinearPixelEmbeddingSpec, TokenEmbeddingSpec


def random(count: int) -> torch.Tensor:
    return torch.randn(count, generator=generator(0, "test"))


def test_one_hot_vectors_have_no_distance_preservation_and_full_rank() -> None:
    found = similarity.one_hot_similarity()
    assert (found.similarity == np.eye(256)).all()
    assert (found.distance_preservation, found.effective_rank) == (0.0, pytest.approx(256))


def test_scalars_have_full_distance_preservation_and_rank_one() -> None:
    found = similarity.continuous_similarity()
    assert found.similarity[0, 255] == 0
    assert found.similarity[3, 54] == pytest.approx(1 - 51 / 255)
    assert (found.distance_preservation, found.effective_rank) == (pytest.approx(1), 1.0)


def test_distance_preservation_is_scipys_rank_correlation() -> None:
    found = similarity.fourier_similarity(random(3), levels=20)
    pairs = [(p, q) for p in range(20) for q in range(p + 1, 20)]
    similar = [round(found.similarity[p, q], 12) for p, q in pairs]
    assert found.distance_preservation == pytest.approx(
        stats.spearmanr(similar, [p - q for p, q in pairs]).statistic
    )


def test_effective_rank_counts_dimensions() -> None:
    equal = torch.linalg.qr(random(48).view(8, 6)).Q
    assert similarity.effective_rank(5 * equal) == pytest.approx(6)
    shares = torch.tensor([0.5, 0.25, 0.25])
    assert similarity.effective_rank(torch.diag(shares)) == pytest.approx(math.exp(1.5 * math.log(2)))
    assert similarity.effective_rank(torch.zeros(3, 2)) == 0


@pytest.mark.parametrize(
    "stem",
    [TokenEmbeddingSpec(), FourierPixelEmbeddingSpec(), LinearPixelEmbeddingSpec()],
    ids=lambda spec: spec.kind,
)
def test_every_stem_has_an_embedding_table_per_channel(stem) -> None:
    codec = Bytes(Grid(1, 256))
    module = stem.build(codec, 8)
    for place, weight in enumerate(module.parameters()):
        torch.nn.init.normal_(weight, generator=generator(place, "weights"))
    ramp = torch.arange(256, dtype=torch.uint8).expand(1, 3, 1, 256)
    inputs = codec.encode(ramp) if module.reads_codes else ramp
    assert torch.equal(torch.cat(list(module(inputs))), module.value_table())
    first = similarity.embedding_similarity(module.value_table()[1])
    one, other = module.value_table()[1, 7].tolist(), module.value_table()[1, 200].tolist()
    cosine = np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other)
    assert first.similarity[7, 200] == pytest.approx(cosine, abs=1e-6)
