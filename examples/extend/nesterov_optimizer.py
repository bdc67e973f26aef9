"""Stochastic gradient descent with Nesterov momentum, and a lower learning rate for norms and biases.

isopix pretrain igpt.digits --plugin examples/extend/nesterov_optimizer.py optimizer.kind=nesterov \
    --out runs/nesterov
"""

import math
from collections.abc import Iterable

import torch
from torch import nn

from isopix import parts


@parts.register("nesterov")
class Nesterov(parts.OptimizerSpec):
    """v = momentum v + gradient, w = w - lr (gradient + momentum v); vectors at `vector_scale` times lr."""

    lr: float = 0.1
    momentum: float = 0.9
    vector_scale: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr {self.lr} must be a number greater than 0")
        if not (0 < self.momentum < 1 and 0 <= self.vector_scale <= 1):
            raise ValueError(
                f"momentum {self.momentum} must lie in (0, 1) and vector_scale {self.vector_scale} in [0, 1]"
            )

    def label(self) -> str:
        return f"Nesterov, lr {self.lr:g}, momentum {self.momentum:g}"

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        chosen = [parameter for _, parameter in parameters]
        groups = [
            {"params": [p for p in chosen if p.ndim > 1], "lr": self.lr},
            {"params": [p for p in chosen if p.ndim <= 1], "lr": self.lr * self.vector_scale},
        ]
        return torch.optim.SGD(groups, self.lr, self.momentum, nesterov=True)
