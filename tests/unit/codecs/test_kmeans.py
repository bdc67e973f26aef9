"""Counting colors, fitting a palette to them, and its error."""

import math

import pytest
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from isopix.codecs import kmeans
from isopix.codecs.kmeans import ColorHistogram, count_colors, quantization_error
from isopix.codecs.palette import Palette
from isopix.core.random import generator
from isopix.core.types import Grid


def pictures(batch: int = 100) -> Tensor:
    """Smooth gradients of little saturation with some noise: many colors in few bins, as in photographs."""
    chance = generator(0, "pictures")
    corners = 10 * torch.randn(batch, 3, 4, 4, generator=chance) + 120
    corners += 40 * torch.randn(batch, 1, 4, 4, generator=chance)
    smooth = torch.nn.functional.interpolate(corners, (32, 32), mode="bicubic", align_corners=True)
    return (smooth + 2 * torch.randn(smooth.shape, generator=chance)).clamp(0, 255).round().to(torch.uint8)


def grays(*levels: int) -> Tensor:
    return torch.tensor(levels, dtype=torch.uint8).expand(1, 3, 1, -1)


def test_as_many_colors_as_there_are_gives_exactly_these() -> None:
    images = grays(255, 0, 17, 17, 255, 34)
    found = kmeans.fit_palette(images, 4)
    assert found[:, 0].tolist() == [0, 17, 34, 255]
    assert quantization_error(Palette(found, Grid(1, 1)), images).rmse == 0
    groups = kmeans.fit_palette(grays(9, 10, 11, 99, 100, 101, 199, 200, 201), 3)
    assert groups.tolist() == [[10] * 3, [100] * 3, [200] * 3]


def test_error_of_many_colors_is_that_of_plain_kmeans() -> None:
    """Mean of three seeds, with scikit-learn's centers rounded to whole levels too."""
    histogram = count_colors(pictures())
    assert len(kmeans._clouds(histogram, kmeans.POINTS_PER_COLOR * 64)) == 4
    ours, plain = [], []
    for seed in range(3):
        fitted = Palette(kmeans.fit_palette(histogram, 64, seed=seed), Grid(1, 1))
        ours.append(quantization_error(fitted, histogram).rmse)
        fit = KMeans(64, n_init=1, random_state=seed).fit(
            histogram.colors.double().numpy(), sample_weight=histogram.counts.numpy()
        )
        centers = torch.from_numpy(fit.cluster_centers_).round().float()
        plain.append(quantization_error(Palette(centers, Grid(1, 1)), histogram).rmse)
    assert sum(ours) <= 1.001 * sum(plain)
    colors = kmeans.fit_palette(histogram, 64)
    assert ((colors @ torch.tensor([0.299, 0.587, 0.114])).diff() >= 0).all(), "from dark to light"


def test_centers_that_round_to_one_make_room_for_the_worst_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def collide(_histogram: ColorHistogram, _colors: int, _seed: int) -> Tensor:
        return torch.tensor([[0] * 3, [0] * 3, [100] * 3], dtype=torch.uint8)

    monkeypatch.setattr(kmeans, "_cluster", collide)
    levels = grays(0, 5, 5, 5, 5, 20, 20, 20, 100, 130)  # of errors 4 x 25, 3 x 400 and 900
    assert kmeans.fit_palette(levels, 3)[:, 0].tolist() == [0, 20, 100]


def test_equal_seeds_give_equal_palettes_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans, "BATCH_PIXELS", 1)  # an image at a time
    images = pictures(24)
    shuffled = images[torch.randperm(len(images), generator=generator(0, "order"))]
    one, other = (kmeans.fit_palette(each, 32, seed=3) for each in (images, shuffled))
    assert torch.equal(one, other)


PALETTE = Palette(torch.tensor([[0.0, 0, 0], [99.6, 100, 100], [200, 200, 200]]), Grid(1, 1))


def image(*colors: tuple[int, int, int]) -> Tensor:
    return torch.tensor(colors, dtype=torch.uint8).T[None, :, None, :]


def test_rmse_is_over_decoded_levels_of_pixels_and_channels() -> None:
    found = quantization_error(PALETTE, image((3, 0, 0), (100, 100, 104)))
    assert found.rmse == pytest.approx(((9 + 16) / 6) ** 0.5)
    assert found.psnr_db == pytest.approx(20 * math.log10(255 / found.rmse), rel=1e-5)
    assert quantization_error(PALETTE, image((0, 0, 0), (100, 100, 100))).psnr_db is None


def test_unused_and_rare_colors_are_counted() -> None:
    pixels = torch.zeros(1, 3, 1, 200_001, dtype=torch.uint8)
    pixels[..., 0] = 100
    found = quantization_error(PALETTE, pixels)
    assert (found.unused_colors, found.rare_colors) == (1, 1)
