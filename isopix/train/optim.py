"""Optimizers, as settings."""

import abc
import dataclasses
import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from isopix.core.registry import Part, register


class OptimizerSpec(Part, noun="optimizer"):
    """Settings of an optimizer."""

    lr: float

    @abc.abstractmethod
    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return a fused optimizer of these parameters, which skips an update where `found_inf` is 1."""

    def for_finetuning(self, lr: float) -> "OptimizerSpec":
        """Return the optimizer to fine-tune with after pre-training with this one; by default the same."""
        return dataclasses.replace(self, lr=lr)


@register("adam")
class Adam(OptimizerSpec):
    """Adam without weight decay; beta2 is 0.95, because the loss spikes with 0.999 (iGPT section 3.4,
    appendix).
    """

    lr: float = 0.003
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check(self)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the fused form: one kernel, and updates that are skipped without waiting for the device."""
        betas = (self.beta1, self.beta2)
        return torch.optim.Adam(parameters, self.lr, betas, self.epsilon, fused=True)

    def for_finetuning(self, lr: float) -> "Adam":
        """Return iGPT's Adam, whatever the other settings of pre-training."""
        return Adam(lr=lr)

    def label(self) -> str:
        return f"Adam, lr {self.lr:g}, betas ({self.beta1:g}, {self.beta2:g})"


@register("adamw")
class AdamW(OptimizerSpec):
    """Adam with decoupled weight decay on all parameters but norms and biases (BERT's
    AdamWeightDecayOptimizer; PatchFormer section 2.1: lr 2e-4, weight decay 0.001).
    """

    lr: float = 2e-4
    weight_decay: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check(self)
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay {self.weight_decay} must be a number of at least 0")

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the fused form: one kernel, and updates that are skipped without waiting for the device."""
        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        betas = (self.beta1, self.beta2)
        return torch.optim.AdamW(groups, self.lr, betas, self.epsilon, fused=True)

    def label(self) -> str:
        betas = f"betas ({self.beta1:g}, {self.beta2:g})"
        return f"AdamW, lr {self.lr:g}, {betas}, weight decay {self.weight_decay:g}"


def _check(spec: "Adam | AdamW") -> None:
    for name in ("lr", "epsilon"):
        if not 0 < getattr(spec, name) < math.inf:
            raise ValueError(f"{name} {getattr(spec, name)} must be a number greater than 0")
    if not (0 <= spec.beta1 < 1 and 0 <= spec.beta2 < 1):
        raise ValueError(f"beta1 {spec.beta1} and beta2 {spec.beta2} must lie in [0, 1)")


def state_tensors(
    optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, nn.Parameter]]
) -> dict[str, Tensor]:
    """Return the state of the optimizer by the names of the parameters: `<parameter>/<moment>`."""
    return {
        f"{name}/{moment}": value
        for name, parameter in named
        for moment, value in optimizer.state.get(parameter, {}).items()
    }


def load_state(
    optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, nn.Parameter]], tensors: dict[str, Tensor]
) -> None:
    """Restore what `state_tensors` returned.

    Raises ValueError if a tensor belongs to no parameter, or if a trainable parameter has no state while
    others have.
    """
    parameters = dict(named)
    trained = {name for name, parameter in parameters.items() if parameter.requires_grad}
    stateless = sorted(trained - {path.rpartition("/")[0] for path in tensors})
    if tensors and stateless:
        raise ValueError(f"the optimizer has no state of parameter '{stateless[0]}'")
    for path, value in tensors.items():
        name, _, moment = path.rpartition("/")
        if name not in parameters:
            raise ValueError(f"optimizer tensor '{path}' belongs to no parameter of this model")
        parameter = parameters[name]
        optimizer.state[parameter][moment] = value.to(parameter.device)
