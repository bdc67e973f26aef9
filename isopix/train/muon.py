"""Muon for the matrices of blocks, Adam for all other parameters."""

import math
from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.choices import PositiveNumber
from isopix.core.registry import register
from isopix.train.config import Adam, DecayRate, NamedParameter, OptimizerSpec


@register("muon")
class Muon(OptimizerSpec):
    """Updates of orthogonal matrices (Jordan et al. 2024) for the matrices of blocks and of `embedding_conv`,
    as PyTorch's Muon without weight decay; Adam for all other parameters.
    """

    lr: PositiveNumber = 0.02
    """Peak learning rate of the matrices of blocks; of [out in], times sqrt(max(1, out / in))."""
    momentum: DecayRate = 0.95
    """Decay rate of the mean of gradients, with Nesterov's step."""
    adam_lr: PositiveNumber = 0.003
    """Peak learning rate of all other parameters."""
    beta1: DecayRate = 0.9
    """Adam's decay rate of the mean of gradients."""
    beta2: DecayRate = 0.95
    """Adam's decay rate of the mean of squared gradients."""

    def build(self, parameters: Iterable[NamedParameter]) -> "MuonWithAdam":
        return MuonWithAdam(self, list(parameters))

    def for_finetuning(self, lr: float) -> Adam:
        """Return Adam: a class head is no matrix of a block, and few steps follow."""
        return Adam(lr=lr)

    def label(self) -> str:
        return f"Muon, lr {self.lr:g}, momentum {self.momentum:g}, and Adam, lr {self.adam_lr:g}"


class MuonWithAdam(torch.optim.Optimizer):
    """Two optimizers as one: their groups in one list, their state by parameter in one dict."""

    def __init__(self, spec: Muon, parameters: list[NamedParameter]):
        matrices, others = list[nn.Parameter](), list[nn.Parameter]()
        for name, each in parameters:
            matrix = each.ndim == 2 and (".blocks." in name or ".conv." in name)
            (matrices if matrix else others).append(each)
        betas = spec.beta1, spec.beta2
        self.adam = torch.optim.Adam(others, spec.adam_lr, betas, fused=True)
        self.muon = MatrixMuon([{"params": matrices}], spec.lr, 0.0, spec.momentum)  # may be none
        super().__init__(others, {})
        self.param_groups[:] = [*self.adam.param_groups, *self.muon.param_groups]
        self.adam.state = self.muon.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all parameters, each at the rate of its group."""
        assert closure is None, "gradients are there"
        for part, own in ((self.adam, "betas"), (self.muon, "momentum")):
            part.param_groups = [group for group in self.param_groups if own in group]
            part.step()


class MatrixMuon(torch.optim.Muon):
    """PyTorch's Muon without weight decay, in fp32 on CPUs: many emulate bf16."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the matrices with gradients."""
        for group in self.param_groups:
            for matrix in (each for each in group["params"] if each.grad is not None):
                state, momentum = self.state[matrix], group["momentum"]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                mean = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
                update = orthogonalized(matrix.grad.lerp(mean, momentum))
                rows, columns = matrix.shape
                matrix.add_(update, alpha=-group["lr"] * math.sqrt(max(1, rows / columns)))


def orthogonalized(matrix: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
    """Return the matrix with singular values near 1: five Newton-Schulz steps (Jordan et al. 2024)."""
    rows, columns = matrix.shape
    dtype = torch.float32 if matrix.is_cpu else torch.bfloat16
    wide = (matrix.T if rows > columns else matrix).to(dtype)
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=-4.775, alpha=2.0315), wide, beta=3.4445)
    return wide.T if rows > columns else wide
