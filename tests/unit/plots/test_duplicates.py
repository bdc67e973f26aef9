"""Labeled pairs: both images side by side, and labels that fit."""

import numpy as np
import torch

from isopix.plots.duplicates import WIDTH, PairLabel, plot_pairs


def test_pairs_are_side_by_side() -> None:
    first = torch.zeros(7, 3, 4, 4, dtype=torch.uint8)
    second = first.clone()
    first[:, 0], second[:, 2] = 255, 255
    labels = [PairLabel("0.99", "train/" * 40 + "a.png", "b.png")] * 7
    picture = np.asarray(plot_pairs("Pairs", first, second, labels)).astype(int)
    red, blue = ((picture == color).all(-1) for color in ([255, 0, 0], [0, 0, 255]))
    assert red.sum() == blue.sum() == 7 * 96 * 96
    rows, columns = red.nonzero()
    assert blue[rows, columns + WIDTH - 96].all()


def test_images_larger_than_their_place_are_made_smaller() -> None:
    large = torch.full((1, 3, 300, 150), 100, dtype=torch.uint8)
    picture = plot_pairs("Pairs", large, large, [PairLabel("0.99", "a", "b")])
    assert (np.asarray(picture) == 100).all(-1).sum() == 2 * 96 * 48
