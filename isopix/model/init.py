"""The whole initialisation as one table: which tensor starts how."""

import math
import re
from collections.abc import Callable
from itertools import chain
from typing import Literal, get_args

import torch
from torch import Tensor, nn

Initial = Literal["openai", "keras", "vit"]
Draw = Callable[[torch.Size, int, int, torch.Generator], Tensor]  # shape, width D, depth L


def constant(value: float) -> Draw:
    """The same number everywhere."""
    return lambda shape, width, depth, generator: torch.full(shape, value)


def normal(deviation: Callable[[int, int], float]) -> Draw:
    """N(0, deviation(D, L)^2)."""
    return lambda shape, width, depth, generator: (
        torch.randn(shape, generator=generator) * deviation(width, depth)
    )


def uniform(limit: Callable[[int], float]) -> Draw:
    """U(-limit(D), limit(D))."""
    return lambda shape, width, depth, generator: (
        (2 * torch.rand(shape, generator=generator) - 1) * limit(width)
    )


def glorot(shape: torch.Size, width: int, depth: int, generator: torch.Generator) -> Tensor:
    """U(-l, l) with l = sqrt(6 / (inputs + outputs)) of a matrix [out in *taps], a tap being an input and an
    output.
    """
    limit = math.sqrt(6 / (shape[0] + shape[1]) / math.prod(shape[2:]))
    return (2 * torch.rand(shape, generator=generator) - 1) * limit


zeros, ones = constant(0.0), constant(1.0)
small, table = normal(lambda width, depth: 0.02), uniform(lambda width: 0.05)
fans_of_d = uniform(lambda width: math.sqrt(3 / width))  # query, key and value are a matrix each
normals = normal(lambda width, depth: 1.0)
# `openai`: the released code of Image GPT, where only the attention's output is scaled by depth; matrices
# that it does not have are Glorot's. `keras`: what Keras does unless told otherwise; the study of inductive
# biases names no start and was written in it, so that this one is inferred. `vit`: the released code of the
# Vision Transformer; PatchFormer names no start and gets it too. The head's zeros are ours in all: an
# untrained network is exactly uniform, or, of means, grey.
RULES: tuple[tuple[str, Draw, Draw, Draw], ...] = (
    # parameter, openai, keras, vit
    (r"norm\d?\.weight$", ones, ones, ones),
    (r"(?<!mlp\.up)(?<!mlp\.down)\.bias$", zeros, zeros, zeros),
    (r"mlp\.(up|down)\.bias$", zeros, zeros, normal(lambda width, depth: 1e-6)),
    (r"head\.project\.weight$", zeros, zeros, zeros),
    (r"attention\.qkv\.weight$", normal(lambda width, depth: 1 / math.sqrt(width)), fans_of_d, fans_of_d),
    (
        r"attention\.out\.weight$",
        normal(lambda width, depth: 1 / math.sqrt(width * depth)),
        glorot,
        glorot,
    ),
    (r"mlp\.(up|down)\.weight$", small, glorot, glorot),
    (r"conv\d\.weight$", glorot, glorot, glorot),
    (r"stem\.tables\.\d+\.weight$", small, table, small),
    (r"stem\.project\.weight$", glorot, glorot, glorot),
    (r"stem\.features\.\d+\.weight$", glorot, glorot, glorot),
    (r"stem\.features\.normals$", normals, normals, normals),
    (r"head\.spread\.weight$", glorot, glorot, glorot),
    (r"masking\.start$", small, table, small),
    (r"(masking|backbone)\.token$", small, table, small),
    (r"positions\.(table|rows|cols)$", normal(lambda width, depth: 0.01), table, small),
)
FIXED = r"stem\.features\.normals$"  # drawn once and saved, but not learnt


@torch.no_grad()
def initialise(
    network: nn.Module, *, width: int, depth: int, generator: torch.Generator, initial: Initial = "openai"
) -> None:
    """Draw every parameter anew, in the order of their names, then what is fixed; raises AssertionError for
    one without a rule.
    """
    fixed = [(name, buffer) for name, buffer in network.named_buffers() if re.search(FIXED, name)]
    for name, tensor in chain(sorted(network.named_parameters()), sorted(fixed)):
        found = [rules for pattern, *rules in RULES if re.search(pattern, name)]
        assert len(found) == 1, f"{len(found)} initialisation rules for {name}"
        draw = found[0][get_args(Initial).index(initial)]
        tensor.copy_(draw(tensor.shape, width, depth, generator))
