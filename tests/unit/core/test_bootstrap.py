"""The bootstrap interval agrees with the binomial one, and covers the mean of images in groups."""

import pytest
import torch
from scipy import stats

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


def test_the_interval_of_groups_covers_the_mean_as_often_as_it_says_and_that_of_images_does_not():
    """60 originals with three images each, which are almost always all correct or all wrong."""
    trials, originals, copies, truth = 400, 60, 3, 0.6
    draw = generator(0, "test")
    easy = torch.rand(trials, originals, generator=draw) < truth
    chances = torch.where(easy, 0.95, 0.05)[..., None].expand(-1, -1, copies).flatten(1)
    correct = torch.rand(chances.shape, generator=draw) < chances
    mean = 0.95 * truth + 0.05 * (1 - truth)
    groups = torch.arange(originals).repeat_interleave(copies)

    def coverage(groups: torch.Tensor | None) -> float:
        counts = bootstrap.resample_counts(originals * copies, 2000, generator(0, "resamples"), groups)
        low, high = bootstrap.percentile_interval(correct, counts)
        return ((low <= mean) & (mean <= high)).double().mean().item()

    assert 0.92 < coverage(groups) < 0.98
    assert coverage(None) < 0.85


def test_a_resample_holds_all_images_of_a_group_equally_often():
    groups = torch.tensor([7, 3, 7, 7, 9, 3])
    counts = bootstrap.resample_counts(6, 50, generator(0, "test"), groups)
    assert torch.equal(counts[:, [0, 0, 1]], counts[:, [2, 3, 5]])
    assert (counts[:, 0] + counts[:, 1] + counts[:, 4]).tolist() == [3.0] * 50


def test_groups_of_one_image_are_plain_resamples():
    plain, grouped = (
        bootstrap.resample_counts(30, 20, generator(0, "test"), groups)
        for groups in (None, torch.arange(30) + 5)
    )
    assert torch.equal(plain, grouped)


def test_accuracies_of_groups_of_different_sizes_are_over_the_images_drawn():
    correct, groups = torch.tensor([[True, False, False, False]]), torch.tensor([0, 1, 1, 1])
    counts = bootstrap.resample_counts(4, 4000, generator(0, "test"), groups)
    low, high = bootstrap.percentile_interval(correct, counts)
    assert (low.item(), high.item()) == (0.0, 1.0)  # a quarter of the resamples each is 0, 0 and 1, 1


def test_the_interval_of_a_difference_is_that_of_scipy_on_pairs():
    draw = generator(0, "test")
    one = torch.rand(500, generator=draw) < 0.7
    other = torch.where(torch.rand(500, generator=draw) < 0.8, one, ~one)
    counts = bootstrap.resample_counts(500, 9999, generator(0, "resamples"))
    low, high = bootstrap.percentile_interval((one.double() - other.double())[None], counts)
    found = stats.bootstrap(
        (one.numpy(), other.numpy()),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        paired=True,
        method="percentile",
        rng=0,
    )
    assert low.item() == pytest.approx(found.confidence_interval.low, abs=0.004)
    assert high.item() == pytest.approx(found.confidence_interval.high, abs=0.004)


def test_the_interval_of_an_accuracy_is_wilsons() -> None:
    for right, count in ((0, 10), (7, 10), (180, 180), (412, 1000)):
        correct = (torch.arange(count) < right)[None]
        theirs = stats.binomtest(right, count).proportion_ci(method="wilson")
        [found] = bootstrap.accuracy_interval(correct)
        assert found == pytest.approx((theirs.low, theirs.high), abs=1e-4)
        assert bootstrap.wilson_interval(right / count, count) == pytest.approx(found)
        assert bootstrap.accuracy_interval(correct, torch.arange(count)) == [pytest.approx(found, abs=0.01)]


def test_an_accuracy_on_copies_has_the_interval_of_the_originals() -> None:
    correct = torch.rand(3, 40, generator=generator(0, "test")) < torch.tensor([[0.2], [0.6], [1.1]])
    copies, groups = correct.repeat_interleave(3, 1), torch.arange(40).repeat_interleave(3)
    for found, expected in zip(
        bootstrap.accuracy_interval(copies, groups), bootstrap.accuracy_interval(correct), strict=True
    ):
        assert found == pytest.approx(expected, abs=0.005)
    [(low, high)] = bootstrap.accuracy_interval(
        torch.ones(1, 6, dtype=torch.bool), torch.zeros(6, dtype=torch.long)
    )
    assert (low, high) == bootstrap.wilson_interval(1.0, 1)


@pytest.mark.parametrize("easy", [0.6, 0.97])
def test_the_interval_of_an_accuracy_covers_as_often_as_it_says(easy: float) -> None:
    """60 originals with three images each, which are almost always all correct or all wrong."""
    trials, originals, copies = 2000, 60, 3
    draw = generator(0, "test")
    chances = torch.where(torch.rand(trials, originals, generator=draw) < easy, 0.99, 0.05)
    chances = chances.repeat_interleave(copies, 1)
    correct = torch.rand(chances.shape, generator=draw) < chances
    truth, groups = 0.99 * easy + 0.05 * (1 - easy), torch.arange(originals).repeat_interleave(copies)
    covered = [low <= truth <= high for low, high in bootstrap.accuracy_interval(correct, groups)]
    assert 0.92 < sum(covered) / trials < 0.985
