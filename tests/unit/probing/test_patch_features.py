"""Filters of patches against loops over pixels with NumPy and SciPy."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from isopix.probing.features import View
from isopix.probing.patch_features import FilterKind, HogFeatures, PatchFeatures, patches

IMAGES = torch.randint(0, 256, (40, 3, 9, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def fitted(kind: FilterKind, seed: int = 0) -> PatchFeatures:
    return PatchFeatures.fit(kind, IMAGES, 5, seed=seed, num_patches=500)


@pytest.mark.parametrize("kind", ["kmeans", "random"])
def test_features_are_sums_of_responses_over_quadrants(kind: FilterKind) -> None:
    found = fitted(kind)
    for image, features in zip(IMAGES[:3].double().numpy(), found.respond(IMAGES[:3])[0], strict=True):
        sums = np.zeros((2, 2, 5))
        for row in range(4):
            for col in range(4):
                patch = image[:, row : row + 6, col : col + 6].flatten()
                patch = (patch - patch.mean()) / np.sqrt(patch.var(ddof=1) + 10)
                white = (patch - found.mean.numpy()) @ found.whitening.numpy()
                distances = cdist(white[None], found.filters.numpy())[0]
                response = distances.mean() - distances if kind == "kmeans" else found.filters.numpy() @ white
                sums[row // 2, col // 2] += response.clip(min=0)
        np.testing.assert_allclose(features.numpy(), sums.reshape(-1), rtol=1e-3, atol=1e-3)


def test_whitening_leaves_directions_uncorrelated() -> None:
    shape, draw = (600, 3, 9, 9), torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw)
    found = PatchFeatures.fit("random", images, 5, seed=0, num_patches=9000)
    covariance = torch.cov(((patches(images).flatten(0, 1) - found.mean) @ found.whitening).T)
    torch.testing.assert_close(covariance, 0.9 * torch.eye(108), rtol=0, atol=0.15)


def test_filters_are_functions_of_the_seed() -> None:
    for kind in ("kmeans", "random"):
        assert fitted(kind).identity() == fitted(kind).identity() != fitted(kind, seed=1).identity()


def test_hog_has_nine_orientations_of_four_blocks_of_cells() -> None:
    pytest.importorskip("skimage", reason="it is in the extra bench")
    images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    images[1, :, :, 16:] = 255
    [features] = HogFeatures().read(View("test-0", images, torch.zeros(2, dtype=torch.int64), None, None))
    assert features.shape == (1, 2, 9 * 4 * 9)  # 3 x 3 blocks of 2 x 2 cells
    assert not features[0, 0].any()
    assert features[0, 1].any()
