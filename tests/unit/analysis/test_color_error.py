"""Colour errors: between a list and its sorted self lies what is misplaced."""

import pytest
import torch
from scipy.stats import wasserstein_distance

from isopix.analysis.color_error import colour_error
from isopix.core.random import generator

ALL = torch.ones(2, 64, 1, dtype=torch.bool)


def images(seed: int) -> torch.Tensor:
    return torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8, generator=generator(seed, "images"))


def test_right_answers_have_no_error() -> None:
    found = colour_error(images(0), ALL, images(0))
    assert (found.whole, found.palette, found.misplaced) == (0, 0, 0)


def test_right_colours_in_wrong_places_are_all_misplaced() -> None:
    found = colour_error(images(0), ALL, images(0).flip(3))
    assert found.whole > 0.2
    assert (found.palette, found.misplaced) == (0, 1)


def test_one_wrong_colour_everywhere_is_not_misplaced() -> None:
    found = colour_error(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), ALL, torch.full((2, 3, 8, 8), 51).byte())
    assert found.whole == pytest.approx(0.2)
    assert found.misplaced == pytest.approx(0)


def test_palette_error_is_the_wasserstein_distance_of_hidden_levels() -> None:
    shown, answer = images(0), images(1)
    hidden = torch.rand(2, 64, 1, generator=generator(0, "hidden")) < 0.3
    expected = [
        wasserstein_distance(one[channel][unseen[:, 0]], other[channel][unseen[:, 0]]) / 255
        for one, unseen, other in zip(shown.flatten(2), hidden, answer.flatten(2), strict=True)
        for channel in range(3)
    ]
    assert colour_error(shown, hidden, answer).palette == pytest.approx(sum(expected) / 6, rel=1e-5)


def test_images_of_which_nothing_is_hidden_do_not_count() -> None:
    hidden = ALL.clone()
    hidden[1] = False
    alone = colour_error(images(0)[:1], ALL[:1], images(1)[:1])
    assert colour_error(images(0), hidden, images(1)) == pytest.approx(alone)
    with pytest.raises(ValueError, match="nothing is hidden"):
        colour_error(images(0), ~ALL, images(1))
