"""Surprise maps: brighter is more nats, and what was not predicted is the image in gray."""

import numpy as np
import torch

from isopix.plots.images import LABEL_HEIGHT, MAX_FONT_SIZE
from isopix.plots.surprise import MappedImages, surprise_grid

HEADER = MAX_FONT_SIZE + 16  # the line of captions


def test_more_nats_are_brighter_and_none_is_gray() -> None:
    images = torch.full((1, 3, 2, 2), 100, dtype=torch.uint8)
    maps = np.array([[[0.0, 1.0], [2.0, np.nan]]])
    picture = np.asarray(surprise_grid([MappedImages("least likely", images, maps)]).convert("RGB")).astype(
        int
    )
    side = picture.shape[1] // 2
    mapped = picture[-side:, -side:]
    quarter, three = side // 4, 3 * side // 4
    dark, middle = mapped[quarter, quarter], mapped[quarter, three]
    bright, missing = mapped[three, quarter], mapped[three, three]
    assert dark.sum() < middle.sum() < bright.sum()
    assert missing.tolist() == [100, 100, 100]


def test_maps_of_patches_cover_their_pixels() -> None:
    images = torch.zeros(3, 3, 8, 8, dtype=torch.uint8)
    maps = np.random.default_rng(0).random((3, 2, 2))
    picture = surprise_grid([MappedImages(name, images, maps) for name in ("a", "b")])
    assert picture.width > picture.height


def test_maps_without_any_number_are_drawn() -> None:
    images = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    assert surprise_grid([MappedImages("a", images, np.full((1, 4, 4), np.nan))]).width > 0


def test_names_and_scores_are_below_the_pictures() -> None:
    images = torch.zeros(3, 3, 8, 8, dtype=torch.uint8)
    maps = np.zeros((3, 8, 8))
    names, scores = ["a.png", "folder/" * 30 + "b.png", "c.png"], ["3 nats", "2 nats", "1 nats"]
    plain, labeled = (
        np.asarray(surprise_grid([MappedImages("", images, maps, *labels)]))
        for labels in ((), (names, scores))
    )
    assert labeled.shape[0] == plain.shape[0] + 2 * LABEL_HEIGHT  # three images in two blocks
    tile = (plain.shape[0] - HEADER) // 2
    ends = (HEADER + tile + LABEL_HEIGHT, len(labeled))
    assert all(labeled[end - LABEL_HEIGHT : end, :, 3].any() for end in ends)
    without = [labeled[: HEADER + tile], labeled[HEADER + tile + LABEL_HEIGHT : -LABEL_HEIGHT]]
    assert np.array_equal(np.concatenate(without), plain)
