"""The one training loop: pre-training, fine-tuning and trained probes differ by their learner alone."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from isopix.core.device import Precision
from isopix.core.random import generator
from isopix.data.batches import Batches
from isopix.data.splits import Split
from isopix.train.evaluator import held_out
from isopix.train.optim import OptimizerSpec
from isopix.train.schedule import ScheduleSpec
from isopix.train.tasks import Learner
from isopix.train.throughput import Meter
from isopix.train.train_step import Stepper

Record = dict[str, Any]


@runtime_checkable
class Settings(Protocol):
    """What the loop reads of a recipe."""

    @property
    def seed(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def accumulate(self) -> int: ...
    @property
    def optimizer(self) -> OptimizerSpec: ...
    @property
    def schedule(self) -> ScheduleSpec: ...
    @property
    def precision(self) -> Precision: ...
    @property
    def compile(self) -> bool: ...
    @property
    def log_every(self) -> int: ...
    @property
    def evaluate_every(self) -> int: ...
    @property
    def evaluate_images(self) -> int: ...
    @property
    def checkpoint_every(self) -> int: ...


class Every(NamedTuple):
    """A function to be called with the step reached: before the first, every so many, and after the last."""

    steps: int
    call: Callable[[int], None]


class Hooks(NamedTuple):
    """What the loop calls: `record` for every line of the log, `save` with the step reached, `stop` after
    each step and each evaluation, `probe`, if there is one, after an evaluation at the same step, `measure`
    for what else an evaluation tells.
    """

    record: Callable[[Record], None]
    save: Callable[[int, Stepper], None]
    stop: Callable[[], bool]
    probe: Every | None = None
    measure: Callable[[], Record] = dict


def train(
    learner: Learner,
    settings: Settings,
    *,
    batches: Batches,
    validation: Split,
    hooks: Hooks,
    resume: Mapping[str, Any] | None = None,
) -> int:
    """Train from step 0, or from `resume` ({"step", "seconds", "optimizer"}), and return the step reached.

    Ends at `settings.steps`, or after the step in which `hooks.stop()` turns true; either way it saves last.
    Every number depends on (seed, step) and the state alone, so that stopping and going on changes nothing.
    Raises NonFiniteError before a weight has changed.
    """
    loop = Loop(learner, settings, batches=batches, validation=validation, hooks=hooks)
    if resume is None:
        with loop.meter.paused():
            loop.measure()
            hooks.save(0, loop.stepper)
    else:
        loop.go_to(resume["step"], resume["seconds"], resume["optimizer"])
    while loop.step < settings.steps and not loop.stopped:
        loop.advance()
    return loop.step


class Loop:
    """A run in progress: the learner, its stepper, and the step that it has reached."""

    def __init__(
        self, learner: Learner, settings: Settings, *, batches: Batches, validation: Split, hooks: Hooks
    ):
        self.learner, self.settings, self.batches, self.hooks = learner, settings, batches, hooks
        self.held_out = validation.first(settings.evaluate_images)
        self.stepper = Stepper(
            learner,
            settings.optimizer,
            accumulate=settings.accumulate,
            precision=settings.precision,
            compiled=settings.compile,
        )
        self.step, self.stopped = 0, False
        self.meter = Meter(batches.batch_size)

    def go_to(self, step: int, seconds: float, optimizer: dict[str, Tensor]) -> None:
        """Take up a run that reached this step in these seconds; the weights are the learner's already."""
        self.step, self.meter.seconds = step, seconds
        self.stepper.load(optimizer)

    def advance(self) -> None:
        """One step, and whatever is due after it: log line, evaluation, checkpoint."""
        settings, batches = self.settings, self.batches
        images, labels = batches.batch(self.step)
        problem = self.learner.prepare(images, labels, generator(settings.seed, "problem", self.step))
        factor = settings.schedule.factor(self.step, steps=settings.steps, epoch=batches.steps_per_epoch)
        self.step += 1
        loss = self.stepper.advance(problem, step=self.step, factor=factor)
        self.meter.tick()
        self.stopped = self.hooks.stop()
        last = self.stopped or self.step == settings.steps
        if last or self.step % settings.log_every == 0:
            self.stepper.check()
            self.hooks.record(self.meter.record(self.step, float(loss), self.stepper.peak * factor))
        elif self.stepper.device.type == "cpu":
            self.stepper.check()
        with self.meter.paused():
            if self.measure():
                self.stopped = self.stopped or self.hooks.stop()  # an evaluation may be the reason
            if last or self.stopped or self.step % settings.checkpoint_every == 0:
                self.stepper.check()
                self.hooks.save(self.step, self.stepper)

    def measure(self) -> bool:
        """Whatever is due at this step of evaluation and probe, both at the two ends; whether it was any."""
        end, probe = self.step in (0, self.settings.steps), self.hooks.probe
        probing = probe is not None and (end or self.step % probe.steps == 0)
        due = end or probing or self.step % self.settings.evaluate_every == 0
        if due:
            self.evaluate()
        if probe is not None and probing:
            probe.call(self.step)
        return due

    def evaluate(self) -> None:
        """Record the grades on the first held-out images."""
        if len(self.held_out) == 0:
            return
        settings = self.settings
        grades = held_out(self.learner, self.held_out, seed=settings.seed, precision=settings.precision)
        numbers: Record = {"images": len(self.held_out), **grades, **self.hooks.measure()}
        self.hooks.record({"kind": "evaluation", "step": self.step, "split": "validation", **numbers})
