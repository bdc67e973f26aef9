"""Early stopping: the first best evaluation counts, and only validation is looked at."""

import pytest
import torch

from isopix.train.early_stopping import Best, best, chance_level_warning


def record(step: int, accuracy: float, split: str = "validation") -> dict[str, object]:
    return {"kind": "evaluation", "step": step, "split": split, "accuracy": accuracy}


def test_the_first_of_equally_good_evaluations_is_kept() -> None:
    best = Best(patience=2)
    assert [best.see(record(step, each)) for step, each in enumerate([0.1, 0.3, 0.3])] == [True, True, False]
    assert (best.accuracy, best.step, best.exhausted) == (0.3, 1, False)
    assert not best.see(record(3, 0.2))
    assert best.exhausted


def test_the_test_split_and_training_lines_say_nothing() -> None:
    best = Best(patience=1)
    best.recall([record(0, 0.2), record(1, 0.9, "test"), {"kind": "train", "step": 2, "loss_nats": 1.0}])
    assert (best.accuracy, best.waited) == (0.2, 0)


def test_the_best_of_a_log_is_what_one_finds_who_sees_it_line_by_line() -> None:
    records = [
        record(0, 0.1),
        record(2, 0.3),
        record(4, 0.9, "test"),
        record(6, 0.3),
        {"kind": "note", "step": 7},
    ]
    seen = Best(patience=9)
    seen.recall(records)
    assert best(records) == records[1]
    assert (seen.step, seen.accuracy) == (2, 0.3)
    assert best(records[2:3]) is None


@pytest.mark.parametrize(("right", "silent"), [(50, False), (59, False), (61, True)])
def test_an_accuracy_within_noise_of_chance_is_said_to_be(right: int, silent: bool) -> None:
    """Half of 100 images are of one class: two deviations are 10 points."""
    text = chance_level_warning(right / 100, torch.arange(100) % 2)
    assert (text == "") == silent
    if not silent:
        assert f"nothing learnt yet: {right}.0% of 100 validation images" in text
        assert "optimizer.learning_rate" in text
