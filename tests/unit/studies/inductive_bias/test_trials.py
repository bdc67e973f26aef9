import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopix.studies.inductive_bias.figures import group_trials, mean_std
from isopix.studies.inductive_bias.results import ProbedLayers, Trial, pack_correct, unpack_correct
from tests.unit.studies.inductive_bias.worlds import pool_probes, probed


def trial(
    block: str, depth: int, seed: int, loss: float, test: list[float], validation: list[float]
) -> Trial:
    return Trial(block, "pix2vec", depth, seed, loss, {"mean": pool_probes(probed(test, validation))})


TRIALS = [
    trial("conv", 1, 0, 2.0, [0.2, 0.4], [0.2, 0.5]),
    trial("mixer", 1, 0, 3.0, [0.1, 0.3], [0.1, 0.3]),
    trial("conv", 1, 1, 2.5, [0.3, 0.2], [0.3, 0.2]),
    trial("conv", 3, 0, 1.0, [0.3, 0.4, 0.5, 0.4], [0.3, 0.4, 0.5, 0.4]),
]


def test_groups_gather_the_seeds_of_an_architecture_in_order_of_appearance() -> None:
    assert [group[:3] for group in group_trials(TRIALS, "mean")] == [
        ("conv", "pix2vec", 1),
        ("mixer", "pix2vec", 1),
        ("conv", "pix2vec", 3),
    ]


def test_a_group_is_mean_and_standard_deviation_over_its_seeds() -> None:
    first = group_trials(TRIALS, "mean")[0]
    assert first.loss == (2.25, pytest.approx(statistics.stdev([2.0, 2.5])), 2)
    assert first.accuracy == (pytest.approx(0.35), pytest.approx(statistics.stdev([0.4, 0.3])), 2)
    assert [layer.mean for layer in first.layers] == [pytest.approx(0.25), pytest.approx(0.3)]
    assert first.untrained == (pytest.approx(0.2), 0.0, 2)


def test_a_spread_is_mean_and_standard_deviation() -> None:
    values = [1.0, 2.0, 6.0]
    assert mean_std(values) == (3.0, pytest.approx(statistics.stdev(values)), 3)


def test_one_seed_has_no_standard_deviation() -> None:
    assert mean_std([0.5]) == (0.5, 0.0, 1)


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_what_was_packed_is_unpacked(correct: list[bool]) -> None:
    packed = pack_correct(np.array(correct))
    assert unpack_correct(packed, len(correct)).tolist() == correct


def test_bits_of_another_number_of_images_are_refused() -> None:
    with pytest.raises(ValueError, match="2 bytes cannot say it of 8 images"):
        unpack_correct(pack_correct(np.ones(9, dtype=bool)), 8)


def test_the_images_of_a_layer_are_those_of_that_layer_and_of_a_baseline_its_best() -> None:
    layers = [np.array([True, False, True]), np.array([False, True, True])]
    network = ProbedLayers((2 / 3, 2 / 3), (0.1, 0.2), 1, tuple(map(pack_correct, layers)), 3)
    assert [network.correct_images(layer).tolist() for layer in (0, 1, None)] == [  # type: ignore[union-attr]
        [True, False, True],
        [False, True, True],
        [False, True, True],
    ]
    baseline = ProbedLayers((0.1, 2 / 3), (0.1, 0.2), 1, (pack_correct(layers[1]),), 3)
    assert baseline.correct_images().tolist() == [False, True, True]  # type: ignore[union-attr]
    assert ProbedLayers((0.5,), (0.5,), 0).correct_images() is None
