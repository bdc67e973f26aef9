"""TrainConfig: how a network is trained, evaluated during training and saved."""

from dataclasses import field
from typing import Annotated, Literal

import torch

from isopix.core.choices import Count, NonNegative, Range, check_ranges
from isopix.core.config import config
from isopix.core.device import Precision, compiles_by_default, native_precision, runtime_environment
from isopix.train.evaluator import EvaluatorSpec
from isopix.train.optim import Adam, OptimizerSpec, ScheduleSpec, WarmupCosineSchedule
from isopix.train.parallel import Strategy


@config
class TrainConfig:
    """Settings of training; the defaults are Image GPT's (iGPT section 3.4, table 5)."""

    steps: Count = 1_000_000
    """Updates of the weights."""
    batch_size: Count = 128
    """Images of an update."""
    accumulate: Count = 1
    """Chunks in which the batch is processed, to save memory."""
    optimizer: OptimizerSpec = field(default_factory=Adam)
    """Update rule."""
    schedule: ScheduleSpec = field(default_factory=WarmupCosineSchedule)
    """Learning rate over the steps."""
    max_grad_norm: Annotated[float, Range(above=0)] | None = None
    """Gradients with a larger norm are scaled down to it; null does not clip them."""
    precision: Precision | None = None
    """Number format of matrix products; null: bf16 on devices with instructions for it, otherwise fp32."""
    compile: bool | None = None
    """Whether steps are compiled; null: on GPUs where Triton is installed."""
    parallel: Strategy = "ddp"
    """On several devices: with `ddp` each has all weights; with `fsdp` a part, its gradient and moments."""
    recompute: bool = False
    """Whether the backward pass computes each block again: up to a third more time, memory of one block."""
    seed: int = 0
    """Seed of weights and batches."""
    log_every: Count = 10
    """Steps between log records."""
    evaluate_every: Count = 1000
    """Steps between evaluations."""
    evaluate_images: NonNegative | None = 1024
    """Validation images of an evaluation, a random sample; null: all."""
    num_test_images: NonNegative | None = 10_000
    """Test images of the evaluation after the last step; null: all."""
    knn_images: NonNegative = 0
    """Above 0, evaluations include the accuracy of k-nearest neighbors among that many training images."""
    checkpoint_every: Count = 1000
    """Steps between checkpoints."""
    checkpoint_minutes: Annotated[float, Range(above=0)] | None = 10.0
    """Minutes after which a checkpoint is saved in any case; null saves none by time."""
    async_save: bool | None = None
    """Whether a checkpoint is written while training continues; null: on GPUs."""
    on_nonfinite: Literal["stop", "skip", "rollback"] = "stop"
    """A loss or gradient that is not finite is not applied; then `stop` ends the training, `skip` continues
    with the next batch, and `rollback` returns to the last checkpoint and leaves out the batches since.
    """
    probe_every: NonNegative = 0
    """Above 0, steps between linear probes of every layer."""
    evaluators: tuple[EvaluatorSpec, ...] = ()
    """Other evaluators; `knn_images` and `probe_every` are shorthands for two of them."""

    def precision_on(self, device: torch.device) -> Precision:
        return self.precision or native_precision(device)

    def environment(self, device: torch.device) -> dict[str, str | int]:
        """Return what bitwise reproducibility depends on besides the settings."""
        return {**runtime_environment(device), "precision": self.precision_on(device)}

    def precision_notes(self, device: torch.device) -> list[str]:
        if (self.precision, native_precision(device)) != ("bf16", "fp32"):
            return []
        return [f"{device.type} has no instructions for bf16, which is emulated; precision=fp32 is faster"]

    @property
    def gpu_precision(self) -> Precision:
        """Precision on a GPU of today, for estimates."""
        return self.precision or "bf16"

    def compiles_on(self, device: torch.device) -> bool:
        return compiles_by_default(device) if self.compile is None else self.compile

    def nonfinite_advice(self, device: torch.device) -> str:
        """Return the settings to try where a loss, a gradient or a weight was not finite on this device."""
        others = ", or train.on_nonfinite=rollback" * (self.on_nonfinite != "rollback")
        others += ", or train.compile=false" * self.compiles_on(device)  # compilers have made such values
        return f"a lower optimizer.lr{others}"

    def __post_init__(self) -> None:
        check_ranges(self)
        self.check_ranks(1)

    def check_ranks(self, count: int) -> None:
        """Raise ValueError for a batch that cannot be split over so many processes."""
        if self.batch_size % (count * self.accumulate):
            factors = {f"{count} processes": count, f"accumulate {self.accumulate}": self.accumulate}
            parts = " x ".join(text for text, size in factors.items() if size > 1)
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of {parts}")
