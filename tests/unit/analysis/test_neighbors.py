"""Neighbors by features and by pixels against scikit-learn's exact search, in blocks of any size."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from isopix.analysis import neighbors
from isopix.analysis.neighbors import Neighbors, nearest_images, nearest_neighbors, standardized
from isopix.core.random import generator

CPU = torch.device("cpu")


def features(count: int = 70) -> torch.Tensor:
    """Random ones, of unequal scale and far from 0; the last three are nearly the first."""
    found = torch.randn(count, 12, generator=generator(0, "features")) * torch.arange(1.0, 13) + 100
    found[-3:] = found[0] + torch.randn(3, 12, generator=generator(1, "features")) / 10
    return found


def search(given: torch.Tensor, k: int = 5, threshold: float = 0.5) -> Neighbors:
    return nearest_neighbors(given, num_neighbors=k, threshold=threshold, device=CPU)


@pytest.mark.parametrize("block", [1, 7, 35, 70, 1000])
def test_neighbors_are_those_of_scikit_learn(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_SIZE", block)
    found, given = search(features()), StandardScaler().fit_transform(features().double().numpy())
    distances, indices = NearestNeighbors(n_neighbors=5, metric="cosine").fit(given).kneighbors()
    assert np.array_equal(found.indices.numpy(), indices)
    assert found.similarities.numpy() == pytest.approx(1 - distances, abs=1e-5)
    assert found.distances.numpy() == pytest.approx(distances.mean(1), abs=1e-5)


@pytest.mark.parametrize("block", [1, 7, 35, 1000])
@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.99])
def test_pairs_are_all_of_the_matrix_of_similarities(
    block: int, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_SIZE", block)
    given = StandardScaler().fit_transform(features().double().numpy())
    given /= np.linalg.norm(given, axis=1, keepdims=True)
    first, second = np.triu(given @ given.T >= threshold, 1).nonzero()
    found = search(features(), threshold=threshold).pairs
    expected = {*zip(first, second, strict=True)}
    assert {*zip(found.first.tolist(), found.second.tolist(), strict=True)} == expected
    assert found.total == len(first) > 5
    values = found.similarity.tolist()
    assert values == sorted(values, reverse=True)
    assert values == pytest.approx((given @ given.T)[found.first, found.second].tolist(), abs=1e-5)


def test_the_most_similar_pairs_are_kept_and_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(features(), threshold=0.2).pairs
    monkeypatch.setattr(neighbors, "BLOCK_SIZE", 8)
    monkeypatch.setattr(neighbors, "MAX_PAIRS", 6)
    found = search(features(), threshold=0.2).pairs
    assert found.similarity.tolist() == pytest.approx(whole.similarity[:6].tolist(), abs=1e-6)
    assert (len(found.first), found.total) == (6, whole.total)
    members = {*found.first.tolist(), *found.second.tolist()}
    assert members == {0, 67, 68, 69}


def test_features_that_are_constant_or_of_equal_images_are_no_error() -> None:
    same = search(torch.ones(6, 3), k=2)
    assert torch.isfinite(same.similarities).all()
    assert same.pairs.total == 15  # all are copies of one image
    constant = torch.cat([features(), torch.full((70, 1), 3.7)], 1)
    assert torch.allclose(standardized(constant)[:, :-1], standardized(features()), atol=1e-4)


def test_too_many_neighbors_are_refused() -> None:
    with pytest.raises(ValueError, match="num_neighbors is 70; allowed for 70 images: 1 to 69"):
        search(features(), k=70)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    given = features(6)
    given[1:3, 1] = value
    with pytest.raises(RuntimeError, match="the features of 2 of 6 images are not finite"):
        search(given, k=1)


def pixels(count: int, *, side: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, side, side), generator=generator(count, "noise")).byte()


@pytest.mark.parametrize("batch_pixels", [1, 32 * 32 * 7, 2**22])
def test_they_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch, batch_pixels: int) -> None:
    monkeypatch.setattr(neighbors, "BATCH_PIXELS", batch_pixels)
    images, others = pixels(9), pixels(40)
    reference = NearestNeighbors(n_neighbors=1).fit(others.flatten(1).double().numpy())
    distances, indices = reference.kneighbors(images.flatten(1).double().numpy())
    found = nearest_images(images, others)
    assert found.indices.tolist() == indices[:, 0].tolist()
    np.testing.assert_allclose(found.distances.numpy(), distances[:, 0] / np.sqrt(3 * 32 * 32), rtol=1e-6)


def test_a_copy_is_at_distance_zero_and_the_first_of_equals_is_found() -> None:
    others = pixels(20).repeat(2, 1, 1, 1)
    found = nearest_images(others[[3, 25]], others)
    assert (found.indices.tolist(), found.distances.tolist()) == ([3, 5], [0, 0])
