"""Initialization: parts of a network define distributions; one function draws all parameters."""

import abc
import dataclasses
import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from isopix.core.registry import Part

# `openai`: the released code of Image GPT, where only the attention's output is scaled by depth. `keras`: the
# defaults of Keras, in which the study of inductive biases was written; the paper names no initialization.
# `keras_mha`: the same, with attention as in Keras's `MultiHeadAttention` layer, whose kernels have three
# axes and, before Keras 3.15, therefore smaller limits. `vit`: the released code of the Vision Transformer,
# but for the patch embedding (Glorot's; there LeCun's normal, variance 1 / fan-in); also for PatchFormer,
# which names none. `zero_residual`: large embeddings, inputs of branches of norm 1, outputs zero, for Muon.
InitScheme = Literal["openai", "keras", "keras_mha", "vit", "zero_residual"]
Scale = float | Callable[[int, int], float]  # a number, or a function of width D and depth L


class Draw(abc.ABC):
    """Distribution of the initial values of one tensor."""

    @abc.abstractmethod
    def __call__(self, shape: torch.Size, width: int, depth: int, generator: torch.Generator) -> Tensor:
        """Return the values of a tensor of this shape, in a network of this width and depth."""


InitTable = Mapping[str, Draw]


@dataclasses.dataclass(frozen=True)
class Constant(Draw):
    """A constant value."""

    value: float

    def __call__(self, shape: torch.Size, width: int, depth: int, generator: torch.Generator) -> Tensor:
        return torch.full(shape, self.value)


Zeros, Ones = partial(Constant, 0.0), partial(Constant, 1.0)


@dataclasses.dataclass(frozen=True)
class Normal(Draw):
    """N(0, std^2)."""

    std: Scale

    def __call__(self, shape: torch.Size, width: int, depth: int, generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=generator) * _value(self.std, width, depth)


@dataclasses.dataclass(frozen=True)
class Uniform(Draw):
    """U(-limit, limit)."""

    limit: Scale

    def __call__(self, shape: torch.Size, width: int, depth: int, generator: torch.Generator) -> Tensor:
        return (2 * torch.rand(shape, generator=generator) - 1) * _value(self.limit, width, depth)


class Glorot(Draw):
    """U(-l, l) with l = sqrt(6 / (fan_in + fan_out)) of a matrix or kernel [out in *taps]."""

    def __call__(self, shape: torch.Size, width: int, depth: int, generator: torch.Generator) -> Tensor:
        limit = math.sqrt(6 / (shape[0] + shape[1]) / math.prod(shape[2:]))
        return (2 * torch.rand(shape, generator=generator) - 1) * limit


# Whose `weight` and `bias` have a rule without being named in a table.
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS = (nn.Linear, nn.Embedding, *CONVOLUTIONS)

TABLES = Uniform(0.05)  # of Keras
EMBEDDING: dict[InitScheme, Draw] = {"keras": TABLES, "keras_mha": TABLES}
EMBEDDING |= {"openai": Normal(0.02), "vit": Normal(0.02), "zero_residual": Normal(0.5)}
ROOT = Normal(lambda width, depth: 1 / math.sqrt(width))  # of a matrix whose outputs are as large as inputs


class ModelPart(Part):
    """Base of the parts that a network is built of."""

    def init(self, scheme: InitScheme) -> InitTable:
        """Return initial distributions by the last components of parameter names.

        `up` is `mlp.up.weight`; `*` stands for any part of one component; the most components win. By
        default, weights of linear layers, convolutions and embeddings are N(0, 0.02^2), their biases 0.
        """
        return {}

    def init_table(self, scheme: InitScheme) -> InitTable:
        """Return `init` of this part and of the parts among its fields, whose modules are named like them."""
        table: dict[str, Draw] = {}
        for field in dataclasses.fields(self):
            part = getattr(self, field.name)
            if isinstance(part, ModelPart):
                table |= {f"{field.name}*.{key}": draw for key, draw in part.init_table(scheme).items()}
        return {**table, **self.init(scheme)}


@torch.no_grad()
def initialize(
    module: nn.Module, tables: Mapping[str, InitTable], *, width: int, depth: int, generator: torch.Generator
) -> None:
    """Draw the parameters that a table or `ModelPart.init` has a rule for, then buffers that a table names.

    `tables` are those of submodules by their names, of which the longest decides; they are drawn in the order
    given, parameters by name. Raises ValueError for values that are not finite.
    """

    def owner(name: str) -> str:
        owners = [prefix for prefix in tables if not prefix or name.startswith(f"{prefix}.")]
        return max(owners, key=len, default="")

    order = {prefix: number for number, prefix in enumerate(tables)}

    def place(item: tuple[str, Tensor]) -> tuple[int, str]:
        return order.get(owner(item[0]), len(order)), item[0]

    for name, parameter in sorted(module.named_parameters(), key=place):
        draw = _find(tables.get(owner(name), {}), name) or _default(module, name)
        if draw is not None:
            parameter.copy_(draw(parameter.shape, width, depth, generator))
        elif not (parameter.is_meta or parameter.isfinite().all()):
            missing = f"parameter '{name}' has no initial values"
            raise ValueError(f"{missing}; set them where it is made, or name it in `init`")
    for name, buffer in sorted(module.named_buffers(), key=place):
        named = _find(tables.get(owner(name), {}), name)
        if named is not None:
            buffer.copy_(named(buffer.shape, width, depth, generator))


def _find(table: InitTable, name: str) -> Draw | None:
    """The draw of the key with the most components that matches the end of a name; of several, the last."""
    found, most = None, 0
    for key, draw in table.items():
        size = key.count(".") + 1
        if size >= most and (_matches(key, name) or _matches(f"{key}.weight", name)):
            found, most = draw, size
    return found


def _matches(key: str, name: str) -> bool:
    patterns = key.split(".")
    ends = name.split(".")[-len(patterns) :]
    return len(ends) == len(patterns) and all(map(fnmatchcase, ends, patterns))


def _default(module: nn.Module, name: str) -> Draw | None:
    """The draw of a parameter that no table names; None to keep its values, such as the ones of a norm."""
    owner, _, own = name.rpartition(".")
    if isinstance(module.get_submodule(owner), LAYERS):
        return {"weight": Normal(0.02), "bias": Zeros()}.get(own)
    return None


def _value(scale: Scale, width: int, depth: int) -> float:
    return scale(width, depth) if callable(scale) else scale
