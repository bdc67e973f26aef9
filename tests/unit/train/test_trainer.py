from collections.abc import Callable

import pytest
import torch

from isopix.core.random import generator
from isopix.data.batches import Batches
from isopix.data.dataset import Data, ImageSet, load
from isopix.objectives.masked import Masked
from isopix.recipes.recipe import Recipe
from isopix.train.evaluator import held_out
from isopix.train.schedule import WarmupCosine
from isopix.train.tasks import Pretraining
from isopix.train.trainer import Hooks, train
from tests.laws import cases

RECIPE = cases.CASES[0].updated(
    data=Data(source="digits", rows=8, cols=8, limit=40),
    objective=Masked(),
    schedule=WarmupCosine(warmup_most=0.5),  # so that the warm-up of 5 steps is the epoch's
    seed=3,
    steps=12,
    batch_size=8,
    log_every=1,
    evaluate_every=100,
    evaluate_images=20,
    checkpoint_every=100,
)


class Spy(Pretraining):
    """Keeps the problems of training, and the images of the evaluations."""

    def __init__(self, recipe: Recipe):
        super().__init__(cases.model(recipe))
        self.problems, self.graded = [], []

    def prepare(self, images, labels, generator):
        problem = super().prepare(images, labels, generator)
        self.problems.append(problem)
        return problem

    def grade(self, images, labels, generator):
        self.graded.append(images)
        return super().grade(images, labels, generator)


class Run:
    """A recipe trained to its end, or to a stop, and everything that its hooks were told."""

    def __init__(self, recipe: Recipe, stop: Callable[[], bool] = lambda: False):
        self.recipe, self.data = recipe, images(recipe)
        self.learner = Spy(recipe)
        self.batches = Batches(self.data.train, size=recipe.train.batch_size, seed=recipe.train.seed)
        self.records, self.saved, self.rates = [], [], []
        hooks = Hooks(self.records.append, self.save, stop)
        self.reached = train(
            self.learner, recipe, batches=self.batches, validation=self.data.validation, hooks=hooks
        )

    def save(self, step, stepper) -> None:
        self.saved.append(step)
        self.rates.append(stepper.optimizer.param_groups[0]["lr"])

    def steps(self, kind: str) -> list[int]:
        return [record["step"] for record in self.records if record["kind"] == kind]

    def numbers(self, kind: str, name: str) -> list[float]:
        return [record[name] for record in self.records if record["kind"] == kind]


def images(recipe: Recipe) -> ImageSet:
    return load(recipe.data, seed=recipe.train.seed)


def test_every_step_has_masks_of_its_own() -> None:
    run = Run(
        RECIPE.updated(
            steps=4,
        )
    )
    for step, problem in enumerate(run.learner.problems):
        batch, _ = run.batches.batch(step)
        expected = run.learner.module.make_batch(batch, generator(RECIPE.train.seed, "problem", step))
        assert torch.equal(problem.inputs, batch)
        assert torch.equal(problem.mask, expected.mask)
    hidden = [problem.mask for problem in run.learner.problems]
    assert not any(torch.equal(one, other) for i, one in enumerate(hidden) for other in hidden[i + 1 :])


def test_the_rate_logged_and_used_is_the_schedules() -> None:
    run = Run(
        RECIPE.updated(
            checkpoint_every=1,
        )
    )
    factors = [
        RECIPE.train.schedule.factor(k, steps=12, epoch=run.batches.steps_per_epoch) for k in range(12)
    ]
    expected = [RECIPE.train.optimizer.lr * factor for factor in factors]
    assert run.batches.steps_per_epoch == 5
    assert run.numbers("train", "learning_rate") == pytest.approx(expected, rel=1e-12)
    assert run.rates[1:] == pytest.approx(expected, rel=1e-12)


def test_evaluation_reads_the_first_validation_images_and_no_others() -> None:
    run = Run(RECIPE)
    first = run.data.validation.first(RECIPE.train.evaluate_images)
    half = len(run.learner.graded) // 2  # one evaluation before the first step, one after the last
    assert torch.equal(torch.cat(run.learner.graded[:half]), first.images)
    assert torch.equal(torch.cat(run.learner.graded[half:]), first.images)
    loss = held_out(run.learner, first, seed=RECIPE.train.seed, precision="fp32")["loss_nats"]
    assert run.numbers("evaluation", "loss_nats")[-1] == loss
    assert run.numbers("evaluation", "split") == ["validation"] * 2
    assert run.numbers("evaluation", "images") == [len(first)] * 2


RHYTHM = RECIPE.updated(
    steps=7,
    log_every=2,
    evaluate_every=3,
    checkpoint_every=4,
)


def test_everything_happens_at_its_step_and_at_the_end() -> None:
    run = Run(RHYTHM)
    assert run.reached == 7
    assert run.steps("train") == [2, 4, 6, 7]
    assert run.steps("evaluation") == [0, 3, 6, 7]
    assert run.saved == [0, 4, 7]


def test_a_stop_is_logged_and_saved_but_not_evaluated() -> None:
    asked = iter([False] * 5 + [True])  # once a step, and after the evaluation of step 3
    run = Run(RHYTHM, stop=lambda: next(asked))
    assert run.reached == 5
    assert run.steps("train") == [2, 4, 5]
    assert run.steps("evaluation") == [0, 3]
    assert run.saved == [0, 4, 5]


def test_bf16_reaches_training_and_evaluation_and_loss_stays_float32() -> None:
    """The head starts at zero, so rounding shows from the second step on."""
    whole, rounded = (
        Run(RECIPE),
        Run(
            RECIPE.updated(
                precision="bf16",
            )
        ),
    )
    for one, other in zip(
        whole.numbers("train", "loss_nats")[2:], rounded.numbers("train", "loss_nats")[2:], strict=True
    ):
        assert one != other
        assert one == pytest.approx(other, rel=0.02)
    first = rounded.data.validation.first(RECIPE.train.evaluate_images)
    losses = {
        precision: held_out(rounded.learner, first, seed=RECIPE.train.seed, precision=precision)["loss_nats"]
        for precision in ("fp32", "bf16")
    }
    assert rounded.numbers("evaluation", "loss_nats")[-1] == losses["bf16"] != losses["fp32"]
    with torch.autocast("cpu", torch.bfloat16):
        network = rounded.learner.module.network
        assert network(network.inputs_of(first.images)).dtype == torch.float32
