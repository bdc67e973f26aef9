"""Evaluators in training: when they run, and what becomes of what they return or raise."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from isopix.train.evaluator import EvaluationContext, EvaluatorSpec, Metrics
from tests.unit.train.runs import RHYTHM, Run, Spy, Steps


def test_an_evaluator_with_an_interval_adds_evaluations_and_one_without_joins_all() -> None:
    run = Run(RHYTHM, evaluators=(Steps(every=2, name="own"), Steps(name="all")))
    evaluations = [record for record in run.records if record["kind"] == "evaluation"]
    assert [record["step"] for record in evaluations] == [0, 2, 3, 4, 6, 7]
    assert [record["step"] for record in evaluations if "own" in record] == [0, 2, 4, 6, 7]
    assert all(record["all"] == record["step"] for record in evaluations)
    assert all({"loss_nats", "images"} <= record.keys() for record in evaluations)
    assert {record["all_training"] for record in evaluations} == {0.0}
    assert run.task.module.training


def test_two_metrics_of_one_name_are_refused_before_training() -> None:
    with pytest.raises(ValueError, match="evaluator 'steps' returns 'reached', which the log record has"):
        Run(RHYTHM, evaluators=(Steps(), Steps()))


class Wrong(EvaluatorSpec):
    """Returns a value from a step on; before it a right metric."""

    kind = "wrong"
    value: Any = None
    start_at: int = 0

    def start(self, context: EvaluationContext) -> Callable[[int], Metrics]:
        def evaluate(step: int) -> Metrics:
            return self.value if step >= self.start_at else {"right": 1.0}

        return evaluate


WRONG = {
    "nan": (
        {"good": numpy.float32(2.5), "broken": math.nan},
        "ValueError: evaluator 'wrong' returns nan for",
    ),
    "none": (None, "AttributeError: 'NoneType' object has no attribute 'items'"),
}


@pytest.mark.parametrize("start_at", [0, 3])
@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_metric_is_noted_and_training_goes_on(case: str, start_at: int) -> None:
    value, message = WRONG[case]
    run = Run(RHYTHM, evaluators=(Wrong(value=value, start_at=start_at), Steps()))
    assert run.reached == 7
    assert run.saved == [0, 4, 7]
    notes = [record["text"] for record in run.records if record["kind"] == "note"]
    steps = [step for step in (0, 3, 6, 7) if step >= start_at]
    assert len(notes) == len(steps)
    assert all(f"no wrong at step {step}: {message}" in note for step, note in zip(steps, notes, strict=True))
    assert run.numbers("evaluation", "reached") == [0, 3, 6, 7]
    evaluations = [record for record in run.records if record["kind"] == "evaluation"]
    assert not any("broken" in record for record in evaluations)
    good = [record["good"] for record in evaluations if "good" in record]
    assert good == ([2.5] * len(steps) if value else [])
    for record in run.records:
        json.dumps(record, allow_nan=False)


def test_the_error_of_a_held_out_loss_is_the_runs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An objective that cannot be evaluated is refused before training."""
    monkeypatch.setattr(Spy, "evaluate", lambda *given: {"loss_nats": torch.tensor(math.nan)})
    with pytest.raises(ValueError, match="returns nan for 'loss_nats'"):
        Run(RHYTHM)
