"""MLPs and norms: the parts of a block that act on each position alone."""

import abc
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.choices import Range, Size
from isopix.core.registry import register
from isopix.core.types import Tokens
from isopix.model.init import ROOT, Glorot, InitScheme, InitTable, ModelPart, Normal, Zeros

Rows = Float[Tensor, "*rows D"]
Epsilon = Annotated[float, Range(above=0)]


@runtime_checkable
class Norm(Protocol):
    """A module that normalizes each position independently."""

    def __call__(self, tokens: Float[Tensor, "B _ D"], /) -> Float[Tensor, "B _ D"]: ...


class NormSpec(ModelPart, noun="norm"):
    """Settings of a norm."""

    @abc.abstractmethod
    def build(self, width: int) -> Norm:
        """Return a norm over this many channels, an nn.Module."""


@register("rms_norm", "RMSNorm")
class RMSNormSpec(NormSpec):
    """x / sqrt(mean(x^2) + epsilon) * gain, without mean subtraction or bias (OpenAI's released iGPT)."""

    epsilon: Epsilon = 1e-5
    """Added to the mean square."""

    def build(self, width: int) -> "RMSNorm":
        return RMSNorm(width, eps=self.epsilon)


class RMSNorm(nn.RMSNorm):
    """PyTorch's; on CPUs by formula, as PyTorch's takes more passes over the rows there."""

    def forward(self, tokens: Rows) -> Rows:
        if not tokens.is_cpu or torch.compiler.is_compiling():
            return super().forward(tokens)
        if torch.is_grad_enabled():
            normed: Rows = _RMSNorm.apply(tokens, self.weight, self.eps)  # type: ignore[no-untyped-call]
            return normed
        rows = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
        return (rows * inverse_rms(rows, self.eps or 0.0)).mul_(self.weight).to(tokens.dtype)


def inverse_rms(rows: Rows, epsilon: float) -> Tensor:
    """Return 1 / sqrt(mean(x^2) + epsilon) of each row, in float32 or wider."""
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    length = length.to(torch.promote_types(rows.dtype, torch.float32))
    return (length.square() / rows.shape[-1] + epsilon).rsqrt()


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Rows, gain: Tensor, epsilon: float) -> Rows:
        dtype = torch.promote_types(x.dtype, torch.float32)
        rows, gain = x.to(dtype), gain.to(dtype)
        scale = inverse_rms(rows, epsilon)
        ctx.save_for_backward(rows, scale, gain)
        return (rows * scale).mul_(gain).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Rows) -> tuple[Rows, Tensor, None]:
        rows, scale, gain = ctx.saved_tensors
        products = gradient * rows
        along = (products @ gain)[..., None] * scale.square() / gain.numel()
        of_rows = (gradient * gain).addcmul_(rows, along, value=-1).mul_(scale)
        return of_rows, scale.flatten() @ products.flatten(0, -2), None


@register("layer_norm", "LayerNorm")
class LayerNormSpec(NormSpec):
    """The standard layer norm with gain and bias."""

    epsilon: Epsilon = 1e-5
    """Added to the variance."""

    def build(self, width: int) -> nn.LayerNorm:
        return nn.LayerNorm(width, eps=self.epsilon)


QUICK_GELU = 1.702  # the factor of OpenAI's approximation
Activation = Literal["quick_gelu", "gelu", "gelu_tanh", "relu_squared"]


def quick_gelu(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x), OpenAI's approximation of GELU."""
    return x * torch.sigmoid(QUICK_GELU * x)


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)^2 (Primer, So et al. 2021)."""
    return F.relu(x).square()


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "quick_gelu": quick_gelu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu_squared": relu_squared,
}

ACTIVATION_LABELS: dict[Activation, str] = {
    "quick_gelu": "QuickGELU",
    "gelu": "GELU",
    "gelu_tanh": "GELU (tanh)",
    "relu_squared": "squared ReLU",
}


@runtime_checkable
class MLP(Protocol):
    """A module from tokens to tokens, applied to each position independently."""

    def __call__(self, tokens: Tokens, /) -> Tokens: ...


class MLPSpec(ModelPart, noun="mlp"):
    """Settings of the MLP of a block."""

    @abc.abstractmethod
    def build(self, width: int) -> MLP:
        """Return the MLP, an nn.Module; a block keeps it as `mlp`."""

    @abc.abstractmethod
    def flops_per_token(self, width: int) -> int:
        """Return the FLOPs of a forward pass per token; a multiply-add counts as two."""


@register("mlp")
class TwoLayerMLPSpec(MLPSpec):
    """width -> expansion * width -> width, with an activation in between."""

    expansion: Size = 4
    """Hidden width, as a multiple of the width."""
    activation: Activation = "gelu"
    """Activation of the hidden units."""
    bias: bool = True
    """Whether both matrices have biases."""

    def label(self) -> str:
        return f"MLP {self.expansion}x, {ACTIVATION_LABELS[self.activation]}"

    def build(self, width: int) -> "TwoLayerMLP":
        return TwoLayerMLP(self, width)

    def flops_per_token(self, width: int) -> int:
        return 4 * self.expansion * width * width

    def init(self, scheme: InitScheme) -> InitTable:
        return two_layer_init(scheme)


class TwoLayerMLP(nn.Module):
    def __init__(self, spec: TwoLayerMLPSpec, width: int):
        super().__init__()
        self.up = nn.Linear(width, spec.expansion * width, bias=spec.bias)
        self.down = nn.Linear(spec.expansion * width, width, bias=spec.bias)
        self.activation = ACTIVATIONS[spec.activation]

    def forward(self, tokens: Tokens) -> Tokens:
        if self.activation is quick_gelu and _rounds_to_bf16_on_cpu(tokens):
            return self.forward_by_silu(tokens)
        return self.down(self.activation(self.up(tokens)))

    def forward_by_silu(self, tokens: Tokens) -> Tokens:
        """Return `forward` with QuickGELU as silu(c x) / c, in one kernel each way; equal up to rounding."""
        up, bias = self.up.weight * QUICK_GELU, self.up.bias
        hidden = F.silu(F.linear(tokens, up, None if bias is None else bias * QUICK_GELU))
        return F.linear(hidden, self.down.weight / QUICK_GELU, self.down.bias)


def _rounds_to_bf16_on_cpu(tokens: Tensor) -> bool:
    """Return whether matrix products are in bf16, on a CPU, which fuses no kernels unless it compiles."""
    return tokens.is_cpu and torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def two_layer_init(scheme: InitScheme) -> InitTable:
    """Return how the matrices `up` and `down` of an MLP start, and their biases."""
    if scheme == "zero_residual":
        return {"up": ROOT, "down": Zeros()}
    matrix = Normal(0.02) if scheme == "openai" else Glorot()
    table: InitTable = {"up": matrix, "down": matrix}
    return {**table, "up.bias": Normal(1e-6), "down.bias": Normal(1e-6)} if scheme == "vit" else table
