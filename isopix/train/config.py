"""TrainConfig: how a network is trained, evaluated during training and saved."""

from dataclasses import field
from typing import Annotated, Literal

import torch

from isopix.core.config import config
from isopix.core.device import Precision, compiles_by_default
from isopix.core.ranges import Range, check_ranges
from isopix.train.evaluator import EvaluatorSpec
from isopix.train.optim import Adam, OptimizerSpec
from isopix.train.parallel import Strategy
from isopix.train.schedule import ScheduleSpec, WarmupCosineSchedule


@config
class TrainConfig:
    """Settings of training; the defaults are Image GPT's (iGPT section 3.4, table 5).

    A step updates the weights once, on `batch_size` images in `accumulate` chunks; `*_every` count steps.
    Gradients with a larger norm than `max_grad_norm` are scaled down to it; None does not clip them. An
    evaluation uses a random sample of `evaluate_images` validation images, and the one after the last step of
    `num_test_images` test images; None uses all. `knn_images` > 0 adds the accuracy of k-nearest neighbors
    among that many training images, `probe_every` > 0 a linear probe every that many steps: shorthands for
    two of the `evaluators`, which may be any that are registered.

    A checkpoint is saved every `checkpoint_every` steps, and after `checkpoint_minutes` without one; None
    saves none by time. With `async_save` it is written while training continues; None does so on GPUs.
    With `compile` steps are compiled; None does so on GPUs where Triton is installed.
    On several devices, `parallel` is how they train together: with `ddp` each has all weights, with `fsdp` a
    part of each, its gradient and its moments.
    With `recompute` the backward pass computes each block again from its input, which takes up to a third
    more time and the memory of one block instead of all.
    Where a loss or a gradient is not finite, no update is applied, and `on_nonfinite` decides: `stop` ends
    the training, `skip` continues with the next batch, and `rollback` returns to the last checkpoint and
    leaves out the batches since.
    """

    steps: int = 1_000_000
    batch_size: int = 128
    accumulate: int = 1
    optimizer: OptimizerSpec = field(default_factory=Adam)
    schedule: ScheduleSpec = field(default_factory=WarmupCosineSchedule)
    max_grad_norm: Annotated[float, Range(above=0)] | None = None
    precision: Precision = "bf16"
    compile: bool | None = None
    parallel: Strategy = "ddp"
    recompute: bool = False
    seed: int = 0
    log_every: int = 10
    evaluate_every: int = 1000
    evaluate_images: int | None = 1024
    num_test_images: int | None = 10_000
    knn_images: int = 0
    checkpoint_every: int = 1000
    checkpoint_minutes: Annotated[float, Range(above=0)] | None = 10.0
    async_save: bool | None = None
    on_nonfinite: Literal["stop", "skip", "rollback"] = "stop"
    probe_every: int = 0
    evaluators: tuple[EvaluatorSpec, ...] = ()

    def compiles_on(self, device: torch.device) -> bool:
        """Return whether steps are compiled on this device."""
        return compiles_by_default(device) if self.compile is None else self.compile

    def nonfinite_advice(self, device: torch.device) -> str:
        """Return the settings to try where a loss, a gradient or a weight was not finite on this device."""
        others = ", or train.on_nonfinite=rollback" * (self.on_nonfinite != "rollback")
        others += ", or train.compile=false" * self.compiles_on(device)  # compilers have made such values
        return f"a lower optimizer.lr{others}"

    def __post_init__(self) -> None:
        check_ranges(self)
        for name in ("steps", "batch_size", "accumulate", "log_every", "evaluate_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 1")
        for name in ("evaluate_images", "num_test_images", "knn_images", "probe_every"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} {getattr(self, name)} must be at least 0")
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size {self.batch_size} is not a multiple of accumulate {self.accumulate}"
            )

    def check_ranks(self, count: int) -> None:
        """Raise ValueError for a batch that cannot be split over so many processes."""
        if self.batch_size % (count * self.accumulate):
            parts = f"{count} processes" + f" x accumulate {self.accumulate}" * (self.accumulate > 1)
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of {parts}")
