"""Counting colors."""

import numpy as np
import torch

from isopix.codecs.kmeans import count_colors
from isopix.core.random import generator

IMAGES = torch.randint(4, (7, 3, 5, 6), dtype=torch.uint8, generator=generator(0, "images")) * 85


def test_counts_are_those_of_numpy() -> None:
    colors, counts = np.unique(IMAGES.movedim(1, 3).reshape(-1, 3).numpy(), axis=0, return_counts=True)
    found = count_colors(IMAGES)
    assert np.array_equal(found.colors.numpy(), colors)
    assert np.array_equal(found.counts.numpy(), counts)


def test_every_pixel_is_counted_once() -> None:
    assert count_colors(IMAGES).num_pixels == 7 * 5 * 6
