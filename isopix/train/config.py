"""Settings of training: optimizers, schedules of learning rates, and all others, `TrainConfig`."""

import abc
import dataclasses
import math
from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Literal

import torch
from torch import nn

from isopix.core.choices import Count, NonNegative, PositiveNumber, Range, check_ranges
from isopix.core.config import config
from isopix.core.device import Precision, compiles_by_default, native_precision, runtime_environment
from isopix.core.registry import Part, register
from isopix.train.evaluator import EvaluatorSpec
from isopix.train.parallel import Strategy, is_sharded

NamedParameter = tuple[str, nn.Parameter]
DecayRate = Annotated[float, Range(low=0, below=1)]


class OptimizerSpec(Part, noun="optimizer"):
    """Settings of an optimizer."""

    lr: PositiveNumber
    """Peak learning rate."""

    @abc.abstractmethod
    def build(self, parameters: Iterable[NamedParameter]) -> torch.optim.Optimizer:
        """Return the optimizer of a module's `named_parameters()`, in its fused form if it has one.

        That skips an update where `found_inf` is 1 without waiting for the device. The schedule multiplies
        each group's learning rate. Of `state[parameter]`, tensors and numbers are saved.
        """

    def for_finetuning(self, lr: float) -> "OptimizerSpec":
        """Return the optimizer to fine-tune with after pre-training with this one; by default the same."""
        return dataclasses.replace(self, lr=lr)


class _AdamSettings(OptimizerSpec):
    beta1: DecayRate = 0.9
    """Decay rate of the mean of gradients."""
    beta2: DecayRate
    """Decay rate of the mean of squared gradients."""
    epsilon: PositiveNumber = 1e-8
    """Added to the root of the mean of squared gradients."""

    def label(self) -> str:
        return f"{type(self).__name__}, lr {self.lr:g}, betas ({self.beta1:g}, {self.beta2:g})"


@register("adam")
class Adam(_AdamSettings):
    """Adam without weight decay; beta2 is 0.95: the loss spikes with 0.999 (iGPT section 3.4, appendix)."""

    lr: PositiveNumber = 0.003
    beta2: DecayRate = 0.95

    def build(self, parameters: Iterable[NamedParameter]) -> torch.optim.Optimizer:
        chosen = [each for _, each in parameters]
        return torch.optim.Adam(chosen, self.lr, (self.beta1, self.beta2), self.epsilon, fused=True)

    def for_finetuning(self, lr: float) -> "Adam":
        """Return iGPT's Adam, whatever the other settings of pre-training."""
        return Adam(lr=lr)


@register("adamw")
class AdamW(_AdamSettings):
    """Adam with decoupled weight decay, but for norms and biases (Loshchilov and Hutter 2019)."""

    lr: PositiveNumber = 2e-4
    beta2: DecayRate = 0.999
    weight_decay: Annotated[float, Range(low=0)] = 0.001
    """Decay of the weights per update, times the learning rate."""

    def build(self, parameters: Iterable[NamedParameter]) -> torch.optim.Optimizer:
        chosen = [each for _, each in parameters]
        groups = [
            {"params": [p for p in chosen if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in chosen if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.lr, (self.beta1, self.beta2), self.epsilon, fused=True)

    def label(self) -> str:
        return f"{super().label()}, weight decay {self.weight_decay:g}"


@register("adam_weight_decay")
class AdamWeightDecay(AdamW):
    """BERT's optimizer, which PatchFormer section 2.1 names: AdamW without the correction of the moments'
    bias, and with epsilon 1e-6. Its first updates are (1 - beta1) / sqrt(1 - beta2) = 3.2 times as large.
    """

    epsilon: PositiveNumber = 1e-6
    """Added to the root of the mean of squared gradients."""

    def build(self, parameters: Iterable[NamedParameter]) -> torch.optim.Optimizer:
        trained = [(name, each) for name, each in parameters if each.requires_grad]
        optimizer = super().build(trained)
        # From a number of steps on at which the correction is 1, and float32 ends to count.
        for _, each in trained:
            step, moments = torch.tensor(2.0**24, device=each.device), torch.zeros_like(each)
            optimizer.state[each] = {"step": step, "exp_avg": moments, "exp_avg_sq": moments.clone()}
        return optimizer


@register("sgd")
class SGD(OptimizerSpec):
    """SGD with momentum, no weight decay (Vision Transformer, appendix B.1.1: 0.9 for fine-tuning)."""

    lr: PositiveNumber = 0.03
    momentum: DecayRate = 0.9
    """Momentum."""

    def build(self, parameters: Iterable[NamedParameter]) -> torch.optim.Optimizer:
        chosen = [each for _, each in parameters]
        fused = not is_sharded(chosen)  # PyTorch has no fused form for sharded parameters
        return torch.optim.SGD(chosen, self.lr, self.momentum, fused=fused)

    def label(self) -> str:
        return f"SGD, lr {self.lr:g}, momentum {self.momentum:g}"


class ScheduleSpec(Part, noun="schedule"):
    """Settings of a learning-rate schedule."""

    @abc.abstractmethod
    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        """Return the factor of the peak learning rate at `step` of 0 .. `steps` - 1; `epoch` is in steps."""


@register("warmup_cosine")
class WarmupCosineSchedule(ScheduleSpec):
    """Linear warmup, then cosine decay that reaches zero one step after the last (iGPT section 3.4)."""

    warmup_epochs: Annotated[float, Range(low=0)] = 1.0
    """Length of the warmup in epochs."""
    max_warmup_fraction: Annotated[float, Range(low=0, below=1)] = 0.1
    """Longest warmup, as a fraction of the steps."""

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        warmup = round(min(self.warmup_epochs * epoch, self.max_warmup_fraction * steps))
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    def label(self) -> str:
        most = f"at most {100 * self.max_warmup_fraction:g}% of steps"
        return f"{self.warmup_epochs:g}-epoch warmup ({most}), cosine decay to 0"


@register("linear_end")
class LinearEndSchedule(ScheduleSpec):
    """Linear warmup, a constant rate, then a linear end that reaches zero one step after the last."""

    warmup: Annotated[float, Range(low=0, below=1)] = 0.1
    """Length of the warmup, as a fraction of the steps."""
    end: Annotated[float, Range(low=0, high=1)] = 0.5
    """Length of the end, as a fraction of the steps."""

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        start = (step + 1) / max(1.0, self.warmup * steps)
        end = (steps - step) / max(1.0, self.end * steps)
        return min(1.0, start, end)

    def label(self) -> str:
        return f"warmup over {100 * self.warmup:g}% of steps, linear end over {100 * self.end:g}%"


@register("constant")
class ConstantSchedule(ScheduleSpec):
    """A constant learning rate (iGPT section 3.4: fine-tuning)."""

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        return 1.0


@config
class TrainConfig:
    """Settings of training; the defaults are Image GPT's (iGPT section 3.4, table 5)."""

    steps: Count = 1_000_000
    """Number of optimizer steps."""
    batch_size: Count = 128
    """Images per optimizer step."""
    accumulate: Count = 1
    """Gradient accumulation: number of chunks per batch."""
    optimizer: OptimizerSpec = field(default_factory=Adam)
    """Update rule."""
    schedule: ScheduleSpec = field(default_factory=WarmupCosineSchedule)
    """Learning rate schedule."""
    layer_decay: Annotated[float, Range(above=0, high=1)] = 1.0
    """Factor of the learning rate from each layer to the one before: the head and the last norm have all of
    it, block l of L has layer_decay^(L + 1 - l), and what precedes the blocks layer_decay^(L + 1) (BEiT).
    """
    ema: Annotated[float, Range(above=0, below=1)] | None = None
    """Decay of an exponential moving average of the weights, (1 + step) / (10 + step) while that is less. The
    average is evaluated, and loaded by other commands; null: none.
    """
    max_grad_norm: Annotated[float, Range(above=0)] | None = None
    """Maximum gradient norm (clipping); null: no clipping."""
    precision: Precision | None = None
    """Precision of matrix products; null: bf16 on devices with instructions for it, otherwise fp32."""
    compile: bool | None = None
    """Whether steps are compiled; null: on GPUs where Triton is installed."""
    parallel: Strategy = "ddp"
    """On several devices: `ddp` replicates weights; `fsdp` shards weights, gradients and optimizer state."""
    recompute: bool = False
    """Activation checkpointing: up to a third slower, stores the activations of one block only."""
    seed: int = 0
    """Seed of weights and batches."""
    log_every: Count = 10
    """Steps between log records."""
    evaluate_every: Count = 1000
    """Steps between evaluations."""
    evaluate_images: NonNegative | None = 1024
    """Number of random validation images per evaluation; null: all."""
    patience: Count | None = None
    """Early stopping of pre-training after this many evaluations without a lower validation loss; the best
    weights are kept. null: train all steps, keep the last weights. Fine-tuning has finetune.patience.
    """
    num_test_images: NonNegative | None = 10_000
    """Number of test images in the evaluation after the last step; null: all."""
    knn_images: NonNegative = 0
    """Number of training images for the k-nearest-neighbor accuracy in evaluations; 0: none."""
    checkpoint_every: Count = 1000
    """Steps between checkpoints."""
    checkpoint_minutes: Annotated[float, Range(above=0)] | None = 10.0
    """Maximum minutes between checkpoints; null: no limit."""
    async_save: bool | None = None
    """Whether a checkpoint is written while training continues; null: on GPUs."""
    on_nonfinite: Literal["stop", "skip", "rollback"] = "stop"
    """Action if a loss or gradient is not finite; its step is never applied. `stop` ends training, `skip`
    continues with the next batch, `rollback` returns to the last checkpoint and omits the batches since.
    """
    probe_every: NonNegative = 0
    """Steps between linear probes of every layer; 0: none."""
    evaluators: tuple[EvaluatorSpec, ...] = ()
    """Other evaluators; `knn_images` and `probe_every` are shorthands for two of them."""

    def precision_on(self, device: torch.device) -> Precision:
        return self.precision or native_precision(device)

    def environment(self, device: torch.device) -> dict[str, str | int]:
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
        """Raise ValueError for settings that are not possible with so many processes."""
        if self.ema is not None and self.parallel == "fsdp" and count > 1:
            raise ValueError("ema needs the whole weights on each device; allowed: parallel=ddp, or ema=null")
        if self.batch_size % (count * self.accumulate):
            factors = {f"{count} processes": count, f"accumulate {self.accumulate}": self.accumulate}
            parts = " x ".join(text for text, size in factors.items() if size > 1)
            raise ValueError(f"batch_size {self.batch_size} is not a multiple of {parts}")
