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


def search(given: torch.Tensor, k: int = 5) -> Neighbors:
    return nearest_neighbors(given, num_neighbors=k, device=CPU)


@pytest.fixture(params=["by blocks", "by faiss"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by faiss":
        pytest.importorskip("faiss")
        monkeypatch.setattr(neighbors, "FAISS_IMAGES", 0)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("block", [1, 7, 35, 70, 1000])
def test_neighbors_are_those_of_scikit_learn(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_SIZE", block)
    found, given = search(features()), StandardScaler().fit_transform(features().double().numpy())
    distances, indices = NearestNeighbors(n_neighbors=5, metric="cosine").fit(given).kneighbors()
    assert np.array_equal(found.indices.numpy(), indices)
    assert found.similarities.numpy() == pytest.approx(1 - distances, abs=1e-5)
    assert found.distances.numpy() == pytest.approx(distances.mean(1), abs=1e-5)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("block", [7, 1000])
def test_neighbors_of_queries_are_those_of_scikit_learn(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "BLOCK_SIZE", block)
    given, queries = features()[:50], features()[50:]
    found = nearest_neighbors(given, num_neighbors=50, device=CPU, queries=queries)
    scaled = StandardScaler().fit_transform(features().double().numpy())
    reference = NearestNeighbors(n_neighbors=50, metric="cosine").fit(scaled[:50])
    distances, indices = reference.kneighbors(scaled[50:])
    assert np.array_equal(found.indices.numpy(), indices)
    assert found.similarities.numpy() == pytest.approx(1 - distances, abs=1e-5)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("k", [4, 6, 69])
def test_equal_ones_are_in_the_order_of_their_indices(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five copies of each of 14 unit vectors; faiss chooses two of 65 that are equally far."""
    monkeypatch.setattr(neighbors, "BLOCK_SIZE", 21)
    monkeypatch.setattr(neighbors, "standardized", lambda given: given)
    given = torch.eye(14).repeat(5, 1)
    expected = np.argsort(-(given @ given.T).fill_diagonal_(-torch.inf).numpy(), axis=1, kind="stable")
    known = 4 if k == 6 and neighbors.FAISS_IMAGES == 0 else k
    assert np.array_equal(search(given, k).indices[:, :known].numpy(), expected[:, :known])


def test_differences_are_relative_to_the_flatter_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors, "PAIRS_AT_ONCE", 2)
    images = torch.cat([pixels(4), torch.full((2, 3, 32, 32), 9, dtype=torch.uint8)])
    images[1] = images[0] // 2
    images[5] += 3
    first, second = torch.tensor([0, 0, 2, 4, 4]), torch.tensor([1, 2, 3, 5, 4])
    one, other = (images[each].double().flatten(1).numpy() for each in (first, second))
    deviation = np.minimum(one.std(1, ddof=1), other.std(1, ddof=1)).clip(min=1)
    expected = np.sqrt(((one - other) ** 2).mean(1)) / deviation
    found = neighbors.pixel_differences(images, first, second)
    assert found.numpy() == pytest.approx(expected, rel=1e-5)
    assert found.tolist()[3:] == [3, 0]


def test_the_threshold_is_that_of_other_images() -> None:
    """Differences to the k-th have a logarithm of -1 + 0.05 u with u in -2..2: the deviation of the median is
    0.05, and six Gaussian ones are 6 * 1.4826 * 0.05 below."""
    steps = torch.tensor([-2.0, -1, -1, 0, 0, 0, 1, 1, 2])
    others = (0.05 * steps - 1).exp()
    differences = torch.stack([torch.zeros(9), others], 1)
    assert neighbors.difference_threshold(differences * 0.5) == pytest.approx(
        0.5 * np.exp(-1 - 6 * 1.4826 * 0.05), rel=1e-5
    )
    assert neighbors.difference_threshold(differences) == 0.2


def test_groups_are_joined_by_pixels_among_neighbors_only() -> None:
    images = pixels(6)
    images[3], images[4] = images[1], images[1] // 2 + images[1] // 4  # near, but for 0.4 deviations
    found = Neighbors(torch.tensor([[1], [3], [0], [4], [3], [0]]), torch.zeros(6, 1))
    near = neighbors.pixel_differences(images, torch.tensor([3]), torch.tensor([4])).item()
    assert neighbors.duplicate_groups(found, images, 0.1) == ([(1, 3)], 0.1)
    assert neighbors.duplicate_groups(found, images, near)[0] == [(1, 3, 4)]
    found.indices[1] = 0  # an equal image that is none of the nearest
    found.indices[3] = 0
    assert neighbors.duplicate_groups(found, images, 0.1)[0] == []


def test_features_that_are_constant_or_of_equal_images_are_no_error() -> None:
    same = search(torch.ones(6, 3), k=2)
    assert same.similarities.tolist() == [pytest.approx([1, 1])] * 6
    constant = torch.cat([features(), torch.full((70, 1), 3.7)], 1)
    assert torch.allclose(standardized(constant)[:, :-1], standardized(features()), atol=1e-4)


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
