"""The trainer against a schedule, a clock and a mean computed by hand."""

import pytest
import torch

from isopix.core.random import generator
from isopix.recipes.recipe import Recipe
from isopix.train.evaluator import BATCH_SIZE, evaluate_split
from isopix.train.tasks import PretrainTask
from tests.laws import cases
from tests.unit.train.runs import RECIPE, RHYTHM, Run


def test_the_learning_rate_logged_and_used_is_the_schedules() -> None:
    run = Run(RECIPE.updated(checkpoint_every=1))
    factors = [
        RECIPE.train.schedule.factor(k, steps=12, epoch=run.batches.steps_per_epoch) for k in range(12)
    ]
    expected = [RECIPE.train.optimizer.lr * factor for factor in factors]
    assert run.batches.steps_per_epoch == 5
    assert run.numbers("train", "learning_rate") == pytest.approx(expected, rel=1e-12)
    assert run.lrs[1:] == pytest.approx(expected, rel=1e-12)


def test_the_held_out_loss_is_the_mean_over_images_and_not_over_batches() -> None:
    """Computed image by image from the logits, with masks from the documented seed of each batch of 16."""
    run = Run(RECIPE)
    model, split = run.task.module, run.data.validation.sample(20)
    assert len(split) % BATCH_SIZE == 4  # the last batch is smaller, and weighs less
    losses = []
    with torch.no_grad():
        for number in range(2):
            images = split.images[16 * number : 16 * (number + 1)]
            batch = model.make_batch(images, generator(RECIPE.train.seed, "evaluation", number))
            logs = model.network(batch.inputs, batch.mask).log_softmax(-1)
            nll = -logs.gather(-1, batch.targets[..., None])[..., 0]
            for loss, mask in zip(nll, batch.loss_mask.expand_as(nll), strict=True):
                losses.append(loss[mask].mean().item())
    by_batch = (sum(losses[:16]) / 16 + sum(losses[16:]) / 4) / 2
    found = run.numbers("evaluation", "loss_nats")[-1]
    assert len(losses) == 20
    assert found == pytest.approx(sum(losses) / 20, rel=1e-6)
    assert abs(by_batch - found) > 1e-4


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
    monkeypatch.setattr("isopix.train.trainer.energy_counter", lambda device: lambda: 3 * clock[0])
    recipe = RECIPE.updated(log_every=3, evaluate_every=2, checkpoint_every=5, accumulate=accumulate)
    run = Run(recipe, task=Slow(recipe, clock))
    assert run.numbers("train", "images_per_second") == pytest.approx([4.0] * 4)
    assert run.numbers("train", "images") == [24, 48, 72, 96]
    assert run.numbers("train", "seconds") == pytest.approx([6, 12, 18, 24])
    assert clock[0] == 50 + 12 * 2 + 7 * 2 * 1000 + 4 * 500
    assert run.numbers("train", "energy_joules") == pytest.approx([18, 36, 54, 72])


def test_everything_happens_at_its_step_and_at_the_end() -> None:
    run = Run(RHYTHM)
    assert run.reached == 7
    assert run.steps("train") == [2, 4, 6, 7]
    assert run.steps("evaluation") == [0, 3, 6, 7]
    assert run.saved == [0, 4, 7]


def test_a_stop_is_logged_and_saved_but_not_evaluated() -> None:
    asked = iter([False] * 6 + [True])  # at the start, once a step, and after the evaluation of step 3
    run = Run(RHYTHM, stop=lambda: next(asked))
    assert run.reached == 5
    assert run.steps("train") == [2, 4, 5]
    assert run.steps("evaluation") == [0, 3]
    assert run.saved == [0, 4, 5]


def test_bf16_reaches_training_and_evaluation_and_loss_stays_float32() -> None:
    """The head starts at zero, so rounding shows from the second step on."""
    exact, rounded = Run(RECIPE), Run(RECIPE.updated(precision="bf16"))
    for one, other in zip(
        exact.numbers("train", "loss_nats")[2:], rounded.numbers("train", "loss_nats")[2:], strict=True
    ):
        assert one != other
        assert one == pytest.approx(other, rel=0.02)
    first = rounded.data.validation.sample(RECIPE.train.evaluate_images)
    losses = {
        precision: evaluate_split(rounded.task, first, seed=RECIPE.train.seed, precision=precision)[
            "loss_nats"
        ]
        for precision in ("fp32", "bf16")
    }
    assert rounded.numbers("evaluation", "loss_nats")[-1] == losses["bf16"] != losses["fp32"]
    network = rounded.task.module.network
    with torch.autocast("cpu", torch.bfloat16):
        assert network(network.inputs_of(first.images)).dtype == torch.float32


def test_a_checkpoint_is_saved_by_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading of the clock is four minutes later; seven steps take more than ten."""
    clock = iter(range(0, 100_000, 240))
    monkeypatch.setattr("isopix.train.trainer.time.monotonic", lambda: float(next(clock)))
    assert set(Run(RHYTHM).saved) > {0, 4, 7}
