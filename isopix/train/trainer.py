"""The one training loop: pre-training and fine-tuning differ by their task alone."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from isopix.core.device import free_cached_memory, reuse_freed_memory
from isopix.core.random import generator, seeded
from isopix.core.types import Scalar
from isopix.data.batches import Batches
from isopix.train.config import TrainConfig
from isopix.train.evaluator import EvaluationContext, Evaluations, EvaluatorSpec, NonFiniteMetricError
from isopix.train.parallel import agree, first_rank_first, is_parallel, whole_weights
from isopix.train.tasks import Batch, TrainingTask
from isopix.train.throughput import Throughput
from isopix.train.train_step import LOSS, NonFiniteError, OutOfMemoryError, TrainStep

Record = dict[str, Any]  # a line of the log
MAX_RECOVERIES = 10  # skipped steps in a row, or rollbacks to one checkpoint: more is no accident


class Callbacks(NamedTuple):
    """What the trainer calls: `log`, `save`, `should_stop` after every step and evaluation, and `roll_back`,
    which loads the weights of the last checkpoint and returns its step and the optimizer's state.
    """

    log: Callable[[Record], None]
    save: Callable[[int, dict[str, Tensor]], None]
    should_stop: Callable[[], bool]
    roll_back: Callable[[], tuple[int, dict[str, Tensor]]]


class Trainer:
    """Trains a task: steps, log records, evaluations, checkpoints and stops.

    Numbers depend on (seed, step) and the weights alone, so that a resumed run equals one that is not.
    """

    def __init__(
        self,
        task: TrainingTask,
        config: TrainConfig,
        *,
        batches: Batches,
        evaluators: Sequence[EvaluatorSpec],
        context: EvaluationContext,
        callbacks: Callbacks,
    ):
        self.task, self.config, self.batches, self.callbacks = task, config, batches, callbacks
        self.evaluations = Evaluations(evaluators, context, steps=config.steps, every=config.evaluate_every)
        if batches.device.type == "cpu":
            reuse_freed_memory()
        self.train_step = TrainStep(task, config)
        self.step, self.stopped, self.started = 0, False, False
        self.skipped_batches = 0  # by rollbacks
        self.recoveries: list[int] = []  # steps skipped in a row, or those of rollbacks to one checkpoint
        self.saved_at = time.monotonic()
        self.throughput = Throughput(batches.batch_size, batches.device)

    def restore(
        self,
        step: int,
        optimizer: dict[str, Tensor],
        *,
        seconds: float,
        skipped_batches: int = 0,
        accumulate: int | None = None,
    ) -> None:
        """Continue from a checkpoint with what `recovered` returned then; the task has its weights."""
        self.step, self.started, self.skipped_batches = step, True, skipped_batches
        self.throughput.seconds = seconds
        self.train_step.accumulate = accumulate or self.config.accumulate
        self.train_step.load(optimizer)

    def recovered(self) -> dict[str, int]:
        """Return what differs from the settings: batches that rollbacks left out, and smaller parts."""
        accumulate = self.train_step.accumulate
        skipped = {"skipped_batches": self.skipped_batches} if self.skipped_batches else {}
        return skipped | ({"accumulate": accumulate} if accumulate != self.config.accumulate else {})

    def start(self) -> None:
        """Evaluate and save step 0, unless that or a checkpoint is where training starts already."""
        if not self.started:
            with self.throughput.exclude():
                self._evaluate()
                self._save()
        self.started = True

    def run(self) -> int:
        """Train to `config.steps`, or until asked to stop; save, and return the step reached.

        An average of the weights takes their place in the task.
        """
        self.start()
        self.stopped, _ = self._agree()
        while self.step < self.config.steps and not self.stopped:
            self.advance()
        self.train_step.swap_average()
        return self.step

    def advance(self) -> None:
        """Train for one step, then log, evaluate and save what is due."""
        config = self.config
        losses, learning_rate = self._train_step()
        self.throughput.steps += 1
        self.stopped, late = self._agree()
        last = self.stopped or self.step == config.steps
        logs = last or self.step % config.log_every == 0
        if (logs or self.train_step.device.type == "cpu") and self._recover():
            return
        if logs:
            values = {name: float(loss) for name, loss in losses.items()}
            if all(map(math.isfinite, values.values())):  # else it was skipped
                self.callbacks.log(self.throughput.record(self.step, values, learning_rate))
        with self.throughput.exclude():
            evaluates = self.evaluations.is_due(self.step)
            saves = self.step % config.checkpoint_every == 0 or late
            saves = saves or (evaluates and config.on_nonfinite != "stop")  # the best weights are not lost
            if (evaluates or saves) and self._recover(whole=evaluates):
                return
            if evaluates:
                if self._evaluate():
                    return
                self.stopped = self.stopped or self._agree()[0]  # early stopping
            if (saves or last or self.stopped) and not self._recover(whole=True):
                self._save()
                self.stopped = self.stopped or agree([self.callbacks.should_stop()])[0]  # asked meanwhile

    def _train_step(self) -> tuple[Mapping[str, Scalar], float]:
        config, batches = self.config, self.batches
        images, labels = batches.batch(self.step + self.skipped_batches)
        batch = self.task.make_batch(images, labels, generator(config.seed, "problem", self.step))
        lr_factor = config.schedule.factor(self.step, steps=config.steps, epoch=batches.steps_per_epoch)
        self.step += 1
        while (losses := self._attempt(batch, lr_factor)) is None:
            pass
        return losses, config.optimizer.lr * lr_factor

    def _attempt(self, batch: Batch, lr_factor: float) -> dict[str, Scalar] | None:
        """Update the weights and return the losses; None after doubling `accumulate` for lack of memory."""
        one, device = self.train_step, self.train_step.device
        try:
            with seeded(self.config.seed, one.parallel.name("dropout"), self.step, device):
                return one(batch, step=self.step, lr_factor=lr_factor)
        except OutOfMemoryError as error:
            if one.accumulate >= self.config.batch_size or is_parallel():  # the other ranks go on
                raise
            text = str(error)
        one.accumulate = min(2 * one.accumulate, self.config.batch_size)
        free_cached_memory(device)
        smaller = f"accumulate={one.accumulate}, which trains on the same batch in smaller parts"
        self._note(self.step, f"{text}; going on with {smaller}")
        return None

    def _save(self) -> None:
        with self.train_step.averaged():
            self.callbacks.save(self.step, self.train_step.state())
        self.saved_at = time.monotonic()

    def _agree(self) -> tuple[bool, bool]:
        minutes = self.config.checkpoint_minutes
        late = minutes is not None and time.monotonic() - self.saved_at >= 60 * minutes
        stops, late = agree([self.callbacks.should_stop(), late])
        return stops, late

    def _recover(self, *, whole: bool = False) -> bool:
        steps = self.train_step.nonfinite_steps()
        policy = self.config.on_nonfinite
        state = self.train_step.nonfinite_state() if whole or (steps and policy != "stop") else ""
        if not steps and not state:
            return False
        what, step = state or LOSS, steps[0] if steps else self.step
        if self._rolls_back(step, what, can_skip=not state):
            return True
        for each in steps:
            self._log_skipped(each)
        return False

    def _rolls_back(self, step: int, what: str, *, can_skip: bool = True) -> bool:
        """Stop or roll back as `on_nonfinite` says; False where it skips."""
        policy = self.config.on_nonfinite
        if policy == "stop" or not self.started:
            raise NonFiniteError(step, what)
        if rolls_back := policy == "rollback" or not can_skip:
            self._roll_back(step, what)
        return rolls_back

    def _log_skipped(self, step: int) -> None:
        in_a_row = bool(self.recoveries) and step == self.recoveries[-1] + 1
        self.recoveries = [*self.recoveries, step] if in_a_row else [step]
        if len(self.recoveries) > MAX_RECOVERIES:
            raise NonFiniteError(step, LOSS, f" and at the {MAX_RECOVERIES} steps before, which were skipped")
        self._note(step, f"{LOSS} is not finite at step {step}; its update was skipped")

    def _roll_back(self, bad_step: int, what: str) -> None:
        step, optimizer = first_rank_first(self.callbacks.roll_back)
        self.recoveries = [*(each for each in self.recoveries if each == step), step]
        if len(self.recoveries) > MAX_RECOVERIES:
            raise NonFiniteError(bad_step, what, f", after {MAX_RECOVERIES} rollbacks to step {step}")
        self.skipped_batches += bad_step - step
        self.step = step
        self.train_step.load(optimizer)
        left_out = f"without the {bad_step - step} batches since"
        self._note(step, f"{what} is not finite at step {bad_step}; back to step {step}, {left_out}")

    def _note(self, step: int, text: str) -> None:
        self.callbacks.log({"kind": "note", "step": step, "text": text})

    def _evaluate(self) -> bool:
        """Log an evaluation; return whether its loss is not finite and the training was rolled back."""
        try:
            with self.train_step.averaged():
                with whole_weights(self.task.module):
                    records = self.evaluations.run(self.step)
                for record in records:
                    self.callbacks.log(record)
        except NonFiniteMetricError as error:
            if self._rolls_back(self.step, str(error)):
                return True
            self._note(self.step, f"{error} is not finite at step {self.step}; it is not logged")
        return False
