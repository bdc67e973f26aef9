"""The trainer against a schedule and a clock, its evaluators, and its ranks."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from isopix.data.batches import Batches
from isopix.data.dataset import DataConfig
from isopix.data.load import load_dataset
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe
from isopix.runs.pretrain import shared_by_ranks
from isopix.storage.run_folder import start_run
from isopix.train.config import WarmupCosineSchedule
from isopix.train.evaluator import EvaluationContext, EvaluatorSpec, HeldOutLoss, Metrics, evaluate_split
from isopix.train.parallel import OneDevice
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import NonFiniteError
from isopix.train.trainer import Callbacks, Trainer
from tests.laws import cases

RECIPE = cases.CASES[0].updated(
    data=DataConfig(source="digits", rows=8, cols=8, limit=40),
    objective=Masked(),
    schedule=WarmupCosineSchedule(max_warmup_fraction=0.5),  # so that the warmup of 5 steps is an epoch
    seed=3,
    steps=12,
    batch_size=8,
    log_every=1,
    evaluate_every=100,
    evaluate_images=20,
    checkpoint_every=100,
)

RHYTHM = RECIPE.updated(steps=7, log_every=2, evaluate_every=3, checkpoint_every=4)


class Run:
    """A recipe trained to its end, or to a stop, and everything that its callbacks were called with."""

    def __init__(
        self,
        recipe: Recipe,
        stop: Callable[[], bool] = lambda: False,
        evaluators: tuple[EvaluatorSpec, ...] = (),
        task: PretrainTask | None = None,
    ):
        self.recipe, self.data = recipe, load_dataset(recipe.data)
        config = recipe.train
        self.task = task or PretrainTask(cases.model(recipe))
        augment = recipe.data.augment
        self.batches = Batches(
            self.data.train, batch_size=config.batch_size, seed=config.seed, augment=augment
        )
        self.records, self.saved, self.lrs = [], [], []
        precision = config.precision_on(self.batches.device)
        context = EvaluationContext(self.task, self.task.module, self.data, config.seed, precision)
        self.trainer = Trainer(
            self.task,
            config,
            batches=self.batches,
            evaluators=(HeldOutLoss(num_images=config.evaluate_images), *evaluators),
            context=context,
            callbacks=Callbacks(self.records.append, self.save, stop, lambda: (0, {})),
        )
        self.reached = self.trainer.run()

    def save(self, step, optimizer) -> None:
        self.saved.append(step)
        self.lrs.append(self.trainer.train_step.optimizer.param_groups[0]["lr"])

    def steps(self, kind: str) -> list[int]:
        return [record["step"] for record in self.records if record["kind"] == kind]

    def numbers(self, kind: str, name: str) -> list[float]:
        return [record[name] for record in self.records if record["kind"] == kind]


class Steps(EvaluatorSpec):
    """Returns the step under a name, and notes whether the model is in evaluation mode."""

    kind = "steps"
    name: str = "reached"

    def start(self, context: EvaluationContext) -> Callable[[int], Metrics]:
        module: nn.Module = context.task.module

        def evaluate(step: int) -> Metrics:
            return {self.name: step, f"{self.name}_training": float(module.training)}

        return evaluate


class Slow(PretrainTask):
    """Takes 2 seconds per training batch and 1,000 per evaluation batch."""

    def __init__(self, recipe: Recipe, clock: list[float]):
        super().__init__(cases.model(recipe))
        self.clock = clock

    def make_batch(self, images, labels, generator):
        self.clock[0] += 2
        return super().make_batch(images, labels, generator)

    def evaluate(self, images, labels, generator):
        self.clock[0] += 1000
        return super().evaluate(images, labels, generator)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_images_per_second_leave_out_evaluations_and_checkpoints(
    monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    """8 images in 2 seconds, in whatever chunks, on a clock that moves only where the spies move it."""
    clock = [50.0]
    monkeypatch.setattr("isopix.train.throughput.time.perf_counter", lambda: clock[0])

    def save(self: Run, step: int, optimizer: dict[str, torch.Tensor]) -> None:
        clock[0] += 500

    monkeypatch.setattr(Run, "save", save)
    recipe = RECIPE.updated(log_every=3, evaluate_every=2, checkpoint_every=5, accumulate=accumulate)
    run = Run(recipe, task=Slow(recipe, clock))
    assert run.numbers("train", "images_per_second") == pytest.approx([4.0] * 4)
    assert run.numbers("train", "images") == [24, 48, 72, 96]
    assert run.numbers("train", "seconds") == pytest.approx([6, 12, 18, 24])
    assert clock[0] == 50 + 12 * 2 + 7 * 2 * 1000 + 4 * 500


def test_a_stop_is_logged_and_saved_but_not_evaluated() -> None:
    # At the start, once a step, after the evaluation of step 3, and after the checkpoint of step 4.
    asked = iter([False] * 7 + [True])
    run = Run(RHYTHM, stop=lambda: next(asked))
    assert run.reached == 5
    assert run.steps("train") == [2, 4, 5]
    assert run.steps("evaluation") == [0, 3]
    assert run.saved == [0, 4, 5]
    asked = iter([False] * 6 + [True])
    assert Run(RHYTHM, stop=lambda: next(asked)).saved == [0, 4]


def test_bf16_reaches_training_and_evaluation_and_loss_stays_float32() -> None:
    """The head starts at zero, so rounding shows from the second step on."""
    exact, rounded = Run(RECIPE), Run(RECIPE.updated(precision="bf16"))
    for one, other in zip(
        exact.numbers("train", "loss_nats")[2:], rounded.numbers("train", "loss_nats")[2:], strict=True
    ):
        assert one != other
        assert one == pytest.approx(other, rel=0.02)
    first = rounded.data.validation.sample(RECIPE.train.evaluate_images)
    losses = [
        evaluate_split(rounded.task, first, seed=RECIPE.train.seed, precision=precision)["loss_nats"]
        for precision in ("bf16", "fp32")
    ]
    assert rounded.numbers("evaluation", "loss_nats")[-1] == losses[0] != losses[1]
    network = rounded.task.module.network
    with torch.autocast("cpu", torch.bfloat16):
        assert network(network.inputs_of(first.images)).dtype == torch.float32


def test_a_checkpoint_is_saved_by_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading of the clock is four minutes later: a checkpoint is ten minutes, or three steps, old."""
    clock = iter(range(0, 100_000, 240))
    monkeypatch.setattr("isopix.train.trainer.time.monotonic", lambda: float(next(clock)))
    assert Run(RECIPE.updated(steps=7)).saved == [0, 2, 5, 7]


def test_an_evaluator_with_an_interval_adds_evaluations_and_one_without_joins_all() -> None:
    run = Run(RHYTHM, evaluators=(Steps(every=2, name="own"), Steps(name="all")))
    evaluations = [record for record in run.records if record["kind"] == "evaluation"]
    assert [record["step"] for record in evaluations] == [0, 2, 3, 4, 6, 7]
    assert [record["step"] for record in evaluations if "own" in record] == [0, 2, 4, 6, 7]
    assert all(record["all"] == record["step"] for record in evaluations)
    assert all({"loss_nats", "images"} <= record.keys() for record in evaluations)
    assert {record["all_training"] for record in evaluations} == {0.0}
    assert run.task.module.training


def test_the_second_of_two_metrics_of_one_name_is_a_note() -> None:
    run = Run(RHYTHM, evaluators=(Steps(), Steps()))
    notes = [record["text"] for record in run.records if record["kind"] == "note"]
    assert "evaluator 'steps' returns 'reached', which the log record has already" in notes[0]


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
        "the validation metric 'broken' of evaluator 'wrong' is not finite",
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
    assert run.steps("train") == [2, 4, 6, 7]
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
    monkeypatch.setattr(PretrainTask, "evaluate", lambda *given: {"loss_nats": torch.tensor(math.nan)})
    with pytest.raises(NonFiniteError, match="metric 'loss_nats' of evaluator 'held_out_loss' is not finite"):
        Run(RHYTHM)


def test_each_rank_has_dropout_of_its_own_and_the_first_that_of_one_process() -> None:
    one = OneDevice.__new__(OneDevice)  # the task does not matter
    names = set()
    for one.rank in range(3):
        names.add(one.name("dropout"))
    assert len(names) == 3
    assert "dropout" in names


def test_a_view_of_a_run_has_its_records_and_saves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    with shared_by_ranks(start_run(tmp_path / "run"), tmp_path / "run") as view:
        assert view.saved.path == tmp_path / "run"
        assert view.path != tmp_path / "run"
        assert view.checkpoints.is_dir()
        (view.path / "log.jsonl").write_text("{}")
    assert not view.path.exists()
    assert not list(tmp_path.iterdir())
