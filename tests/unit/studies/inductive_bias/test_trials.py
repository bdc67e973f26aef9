import statistics

import pytest

from isopix.studies.inductive_bias.trials import Trial, group_trials, mean_std

TRIALS = [
    Trial("conv", "pix2vec", 1, 0, 2.0, (0.2, 0.4), (0.2, 0.5), 1),
    Trial("mixer", "pix2vec", 1, 0, 3.0, (0.1, 0.3), (0.1, 0.3), 1),
    Trial("conv", "pix2vec", 1, 1, 2.5, (0.3, 0.2), (0.3, 0.2), 0),
    Trial("conv", "pix2vec", 3, 0, 1.0, (0.3, 0.4, 0.5, 0.4), (0.3, 0.4, 0.5, 0.4), 2),
]


def test_groups_gather_the_seeds_of_an_architecture_in_order_of_appearance() -> None:
    assert [group[:3] for group in group_trials(TRIALS)] == [
        ("conv", "pix2vec", 1),
        ("mixer", "pix2vec", 1),
        ("conv", "pix2vec", 3),
    ]


def test_a_group_is_mean_and_standard_deviation_over_its_seeds() -> None:
    first = group_trials(TRIALS)[0]
    assert first.loss == (2.25, pytest.approx(statistics.stdev([2.0, 2.5])), 2)
    assert first.accuracy == (pytest.approx(0.35), pytest.approx(statistics.stdev([0.4, 0.3])), 2)
    assert [layer.mean for layer in first.layers] == [pytest.approx(0.25), pytest.approx(0.3)]


def test_a_spread_is_mean_and_standard_deviation() -> None:
    values = [1.0, 2.0, 6.0]
    assert mean_std(values) == (3.0, pytest.approx(statistics.stdev(values)), 3)


def test_one_seed_has_no_standard_deviation() -> None:
    assert mean_std([0.5]) == (0.5, 0.0, 1)
