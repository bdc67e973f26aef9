"""The bootstrap interval agrees with the binomial one."""

import torch

from isopix.core import bootstrap
from isopix.core.random import generator


def test_every_resample_holds_as_many_images_as_there_are():
    assert bootstrap.resample_counts(30, 5, generator(0, "test")).sum(1).tolist() == [30.0] * 5


def test_the_interval_is_the_binomial_one():
    correct = torch.arange(400)[None] < 300
    low, high = bootstrap.percentile_interval(
        correct, bootstrap.resample_counts(400, 4000, generator(0, "test"))
    )
    std = (0.75 * 0.25 / 400) ** 0.5
    torch.testing.assert_close(low, torch.tensor([0.75 - 1.96 * std]), atol=0.004, rtol=0)
    torch.testing.assert_close(high, torch.tensor([0.75 + 1.96 * std]), atol=0.004, rtol=0)


def test_certainty_has_no_width():
    correct = torch.tensor([[True] * 9, [False] * 9])
    low, high = bootstrap.percentile_interval(correct, bootstrap.resample_counts(9, 50, generator(0, "test")))
    assert (low.tolist(), high.tolist()) == ([1.0, 0.0], [1.0, 0.0])
