"""Early stopping: the first best evaluation is selected, on validation alone."""

import pytest
import torch

from isopix.train.stopping import EarlyStopping, best_evaluation, chance_level_warning


def record(step: int, accuracy: float, split: str = "validation") -> dict[str, object]:
    return {"kind": "evaluation", "step": step, "split": split, "accuracy": accuracy}


def test_the_first_of_equally_good_evaluations_is_kept() -> None:
    early = EarlyStopping(patience=2)
    assert [early.update(record(step, each)) for step, each in enumerate([0.1, 0.3, 0.3])] == [
        True,
        True,
        False,
    ]
    assert (early.best_accuracy, early.best_step, early.should_stop) == (0.3, 1, False)
    assert not early.update(record(3, 0.2))
    assert early.should_stop


def test_the_test_split_and_training_records_are_ignored() -> None:
    early = EarlyStopping(patience=1)
    early.replay([record(0, 0.2), record(1, 0.9, "test"), {"kind": "train", "step": 2, "loss_nats": 1.0}])
    assert (early.best_accuracy, early.evaluations_since_best) == (0.2, 0)


def test_a_rewind_keeps_the_best_weights_that_are_saved() -> None:
    """Those of a later step have replaced the earlier ones: a worse evaluation must not replace them."""
    early = EarlyStopping(patience=2)
    early.replay([record(0, 0.1), record(2, 0.3), record(4, 0.5)])
    [note] = early.rewind(2, [record(0, 0.1), record(2, 0.3)])
    assert "step 4 from before, with validation accuracy 50.0%" in note
    assert (early.best_accuracy, early.best_step, early.evaluations_since_best) == (0.5, 4, 0)
    assert not early.update(record(4, 0.4))
    assert early.update(record(6, 0.6))


def test_a_rewind_to_the_best_step_or_later_forgets_what_came_after() -> None:
    early = EarlyStopping(patience=2)
    early.replay([record(0, 0.1), record(2, 0.3), record(4, 0.2), record(6, 0.2)])
    assert early.rewind(4, [record(0, 0.1), record(2, 0.3), record(4, 0.2)]) == []
    assert (early.best_accuracy, early.best_step, early.evaluations_since_best) == (0.3, 2, 1)


def test_the_best_of_a_log_is_that_of_its_records_one_by_one() -> None:
    records = [
        record(0, 0.1),
        record(2, 0.3),
        record(4, 0.9, "test"),
        record(6, 0.3),
        {"kind": "note", "step": 7},
    ]
    early = EarlyStopping(patience=9)
    early.replay(records)
    assert best_evaluation(records) == records[1]
    assert (early.best_step, early.best_accuracy) == (2, 0.3)
    assert best_evaluation(records[2:3]) is None


@pytest.mark.parametrize(("right", "silent"), [(50, False), (59, False), (61, True)])
def test_an_accuracy_not_significantly_above_chance_is_warned_of(right: int, silent: bool) -> None:
    """Half of 100 images are of one class: two standard deviations are 10 points."""
    text = chance_level_warning(right / 100, torch.arange(100) % 2)
    assert (text == "") == silent
    if not silent:
        assert f"validation accuracy {right}.0% on 100 images is not above chance level" in text
        assert "optimizer.lr" in text
