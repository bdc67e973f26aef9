"""A single prediction decides, the majority wins, and ties are broken at random."""

from collections import Counter

import pytest
import torch

from isopix.core.random import generator
from isopix.probing import mask_ensemble

DRAW = torch.Generator().manual_seed(3)
PREDICTIONS = torch.randint(4, (5, 200), generator=DRAW)
PROBABILITIES = torch.rand(5, 200, 4, generator=DRAW, dtype=torch.float64).softmax(-1)


def draws(number=0):
    return generator(0, "test", number)


def test_one_voter_decides_alone():
    assert torch.equal(mask_ensemble.mode(PREDICTIONS[:1], draws()), PREDICTIONS[0])
    assert torch.equal(mask_ensemble.mean_probability(PROBABILITIES[:1]), PROBABILITIES[0].argmax(-1))


def test_equal_voters_are_one():
    assert torch.equal(mask_ensemble.mode(PREDICTIONS[:1].expand(5, -1), draws()), PREDICTIONS[0])


def test_only_a_most_frequent_prediction_wins():
    chosen = mask_ensemble.mode(PREDICTIONS, draws()).tolist()
    for image, winner in enumerate(chosen):
        counts = Counter(PREDICTIONS[:, image].tolist())
        assert counts[winner] == max(counts.values())


def test_the_order_of_the_voters_does_not_matter():
    order = torch.tensor([3, 1, 4, 0, 2])
    assert torch.equal(
        mask_ensemble.mode(PREDICTIONS[order], draws()), mask_ensemble.mode(PREDICTIONS, draws())
    )
    torch.testing.assert_close(PROBABILITIES[order].mean(0), PROBABILITIES.mean(0))


def test_ties_are_broken_evenly_and_by_the_seed():
    tied = torch.tensor([0, 0, 2, 2, 5])[:, None].expand(-1, 4000)
    chosen = mask_ensemble.mode(tied, draws())
    counts = chosen.bincount(minlength=6).tolist()
    assert counts[0] + counts[2] == 4000
    assert abs(counts[0] - 2000) < 4 * 1000**0.5  # four standard deviations
    assert torch.equal(chosen, mask_ensemble.mode(tied, draws()))
    assert not torch.equal(chosen, mask_ensemble.mode(tied, draws(1)))


def test_confident_predictions_outweigh_uncertain_ones_in_the_mean_alone():
    probabilities = torch.tensor([[[0.55, 0.45]], [[0.55, 0.45]], [[0.0, 1.0]]])
    assert mask_ensemble.mean_probability(probabilities).tolist() == [1]
    assert mask_ensemble.mode(probabilities.argmax(-1), draws()).tolist() == [0]


@pytest.mark.parametrize("voters", [1, 2, 5])
def test_means_are_those_of_a_naive_loop(voters):
    for image in range(20):
        sums = [
            sum(float(PROBABILITIES[voter, image, c]) for voter in range(voters)) / voters for c in range(4)
        ]
        chosen = int(mask_ensemble.mean_probability(PROBABILITIES[:voters])[image])
        assert sums[chosen] == max(sums)
