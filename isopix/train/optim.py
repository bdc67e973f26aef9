"""Optimizers, and schedules of their learning rates, as settings."""

import abc
import dataclasses
import math
from collections.abc import Iterable
from typing import Annotated

import torch
from torch import nn

from isopix.core.choices import PositiveNumber, Range
from isopix.core.registry import Part, register
from isopix.train.parallel import is_sharded

DecayRate = Annotated[float, Range(low=0, below=1)]


class OptimizerSpec(Part, noun="optimizer"):
    """Settings of an optimizer."""

    lr: PositiveNumber
    """Peak learning rate."""

    @abc.abstractmethod
    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer of these parameters, in its fused form if it has one.

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
    """Peak learning rate."""
    beta2: DecayRate = 0.95
    """Decay rate of the mean of squared gradients."""

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, self.lr, (self.beta1, self.beta2), self.epsilon, fused=True)

    def for_finetuning(self, lr: float) -> "Adam":
        """Return iGPT's Adam, whatever the other settings of pre-training."""
        return Adam(lr=lr)


@register("adamw")
class AdamW(_AdamSettings):
    """Adam with decoupled weight decay, but for norms and biases (BERT; PatchFormer section 2.1)."""

    lr: PositiveNumber = 2e-4
    """Peak learning rate."""
    beta2: DecayRate = 0.999
    """Decay rate of the mean of squared gradients."""
    weight_decay: Annotated[float, Range(low=0)] = 0.001
    """Decay of the weights per update, times the learning rate."""

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.lr, (self.beta1, self.beta2), self.epsilon, fused=True)

    def label(self) -> str:
        return f"{super().label()}, weight decay {self.weight_decay:g}"


@register("sgd")
class SGD(OptimizerSpec):
    """SGD with momentum, no weight decay (Vision Transformer, appendix B.1.1: 0.9 for fine-tuning)."""

    lr: PositiveNumber = 0.03
    """Peak learning rate."""
    momentum: DecayRate = 0.9
    """Momentum."""

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        chosen = list(parameters)
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
        most = f"at most {100 * self.max_warmup_fraction:g} % of steps"
        return f"{self.warmup_epochs:g}-epoch warmup ({most}), cosine decay to 0"


@register("constant")
class ConstantSchedule(ScheduleSpec):
    """A constant learning rate (iGPT section 3.4: fine-tuning)."""

    def factor(self, step: int, *, steps: int, epoch: int) -> float:
        return 1.0
