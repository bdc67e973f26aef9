"""Optimizers as settings."""

import abc
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
        """Return the optimizer of these parameters; its state may be withheld from a step by `found_inf`."""


@register("adam")
class Adam(OptimizerSpec):
    """Adam without weight decay; beta2 = 0.95, because 0.999 makes the loss spike (iGPT section 3.4,
    appendix).
    """

    lr: float = 0.003
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check(self)

    def build(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The fused form: one kernel, and an update that can be withheld without asking the device."""
        betas = (self.beta1, self.beta2)
        return torch.optim.Adam(parameters, self.lr, betas, self.epsilon, fused=True)

    def label(self) -> str:
        return f"Adam, lr {self.lr:g}, betas ({self.beta1:g}, {self.beta2:g})"


@register("adamw")
class AdamW(OptimizerSpec):
    """Adam whose decay shrinks weights directly, by `lr` times `weight_decay` a step, and not
    norms and biases (BERT's AdamWeightDecayOptimizer; PatchFormer section 2.1: 2e-4 and 0.001).
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
        """The fused form: one kernel, and an update that can be withheld without asking the device."""
        every = list(parameters)
        groups = [
            {"params": [each for each in every if each.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [each for each in every if each.ndim <= 1], "weight_decay": 0.0},
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
    """The optimizer's memory by the names of the parameters: `<parameter>/<moment>`."""
    tensors = {}
    for name, parameter in named:
        for moment, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}/{moment}"] = value
    return tensors


def load_state(
    optimizer: torch.optim.Optimizer, named: Iterable[tuple[str, nn.Parameter]], tensors: dict[str, Tensor]
) -> None:
    """Put back what `state_tensors` returned.

    Raises ValueError if a tensor belongs to no parameter, or if only some of those that are trained have a
    memory.
    """
    parameters = dict(named)
    trained = {name for name, parameter in parameters.items() if parameter.requires_grad}
    bare = sorted(trained - {path.rpartition("/")[0] for path in tensors})
    if tensors and bare:
        raise ValueError(f"the optimizer has no memory of parameter '{bare[0]}'")
    for path, value in tensors.items():
        name, _, moment = path.rpartition("/")
        if name not in parameters:
            raise ValueError(f"optimizer tensor '{path}' belongs to no parameter of this model")
        parameter = parameters[name]
        optimizer.state[parameter][moment] = value.to(parameter.device)
