"""The principal components of raw pixels, against scikit-learn and NumPy."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from isopix.core.types import Images
from isopix.probing import feature_extraction
from isopix.probing.baselines import PixelComponents, raw_pixels
from isopix.probing.config import ProbeConfig
from isopix.probing.probe import fit_probe
from isopix.probing.splits import FeatureSplits
from tests.unit.probing.cases import CPU, cut, digits

QUICK = ProbeConfig(l2_grid=(1e-2, 1e-1), l2_extra=(), num_resamples=10)


def colors(count: int = 200, side: int = 6) -> Images:
    """Smooth random color images: a spectrum that falls, as that of natural images."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(count, 3, side, side, generator=draw).cumsum(2).cumsum(3)
    return (128 + 20 * noise).clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize("count", [1, 8, 32])
def test_components_span_what_those_of_numpy_span(count: int) -> None:
    images = colors()
    x = raw_pixels(images)[0].double().numpy()
    _, scales, rows = np.linalg.svd(x - x.mean(0), full_matrices=False)
    found = PixelComponents.fit(images, count)
    assert found.components.shape == (108, count)
    assert np.rad2deg(subspace_angles(found.components.double().numpy(), rows[:count].T)).max() < 0.1
    projected = found.project(raw_pixels(images))[0].double().numpy()
    assert np.linalg.norm(projected, axis=0) == pytest.approx(scales[:count], rel=1e-4)


def test_a_probe_of_them_is_that_of_the_components_of_scikit_learn() -> None:
    images, labels = digits()
    pca = PCA(16, svd_solver="full").fit(raw_pixels(images)[0].double().numpy())
    theirs = torch.from_numpy(pca.transform(raw_pixels(images)[0].double().numpy())).float()[None]
    ours = PixelComponents.fit(images, 16).project(raw_pixels(images))

    def accuracy(features: torch.Tensor) -> float:
        splits: FeatureSplits = cut(features, labels, 600, 300)
        return fit_probe(splits, QUICK, device=CPU).best.test_accuracy

    assert 0.85 < accuracy(ours) < 0.99
    assert accuracy(ours) == pytest.approx(accuracy(theirs), abs=0.005)


def test_gray_images_have_no_components_of_rounding_errors() -> None:
    images = colors()[:, :1].expand(-1, 3, -1, -1).contiguous()  # 36 directions of 108 pixel values
    found = PixelComponents.fit(images, 100)
    assert found.components.shape == (108, 36)
    few = PixelComponents.fit(images[:10], 100)
    assert few.components.shape == (108, 9)


def test_equal_images_still_have_a_component() -> None:
    images = colors(1).expand(20, -1, -1, -1)
    projected = PixelComponents.fit(images, 4).project(raw_pixels(images))
    assert projected.shape[2] >= 1
    assert projected.abs().max() < 1e-5


def test_the_fit_is_deterministic_and_leaves_the_global_random_state() -> None:
    images = colors()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = PixelComponents.fit(images, 8)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = PixelComponents.fit(images, 8)
    assert torch.equal(first.components, second.components)
    assert first.identity() == second.identity() != PixelComponents.fit(images, 7).identity()


def test_images_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_extraction, "PCA_IMAGES", 3)
    images = colors(9)
    few = PixelComponents.fit(images, 2)
    assert torch.equal(few.mean, raw_pixels(images[[0, 4, 8]])[0].mean(0))
