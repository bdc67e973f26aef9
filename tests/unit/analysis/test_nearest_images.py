"""Nearest training images are those that scikit-learn finds, at its distances."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from isopix.analysis import nearest_images as module
from isopix.analysis.nearest_images import nearest_images
from isopix.core.random import generator


def _noise(count: int, *, side: int = 5) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, side, side), generator=generator(count, "noise")).byte()


@pytest.mark.parametrize("batch_pixels", [1, 25 * 7, 2**22])
def test_they_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch, batch_pixels: int) -> None:
    monkeypatch.setattr(module, "BATCH_PIXELS", batch_pixels)
    images, others = _noise(9), _noise(40)
    reference = NearestNeighbors(n_neighbors=1).fit(others.flatten(1).double().numpy())
    distances, indices = reference.kneighbors(images.flatten(1).double().numpy())
    found = nearest_images(images, others)
    assert found.indices.tolist() == indices[:, 0].tolist()
    np.testing.assert_allclose(found.distances.numpy(), distances[:, 0] / np.sqrt(75), rtol=1e-6)


def test_a_copy_is_at_distance_zero_and_the_first_of_equals_is_found() -> None:
    others = _noise(20).repeat(2, 1, 1, 1)
    found = nearest_images(others[[3, 25]], others)
    assert (found.indices.tolist(), found.distances.tolist()) == ([3, 5], [0, 0])


def test_no_images_to_compare_with_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no images to compare with"):
        nearest_images(_noise(2), _noise(2)[:0])
