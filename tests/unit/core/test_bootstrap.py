"""The bootstrap interval is that of drawing the test images again."""

import torch

from isopix.core import bootstrap
from isopix.core.random import generator


def test_every_resample_has_the_original_size():
    assert bootstrap.draw_resamples(30, 5, generator(0, "test")).sum(1).tolist() == [30.0] * 5


def test_the_interval_is_binomial():
    correct = torch.arange(400)[None] < 300
    low, high = bootstrap.percentile_interval(
        correct, bootstrap.draw_resamples(400, 4000, generator(0, "test"))
    )
    deviation = (0.75 * 0.25 / 400) ** 0.5
    torch.testing.assert_close(low, torch.tensor([0.75 - 1.96 * deviation]), atol=0.004, rtol=0)
    torch.testing.assert_close(high, torch.tensor([0.75 + 1.96 * deviation]), atol=0.004, rtol=0)


def test_a_certain_accuracy_has_an_interval_of_no_width():
    correct = torch.tensor([[True] * 9, [False] * 9])
    low, high = bootstrap.percentile_interval(correct, bootstrap.draw_resamples(9, 50, generator(0, "test")))
    assert (low.tolist(), high.tolist()) == ([1.0, 0.0], [1.0, 0.0])
