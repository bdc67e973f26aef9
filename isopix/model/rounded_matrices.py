"""Blocks whose large matrices are rounded to bf16 once, for sampling on CPUs: one position at a time, reading
them takes most of the time.
"""

import copy
from typing import TypeGuard, cast

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.model.attention import Attention
from isopix.model.blocks.base import Block
from isopix.model.mlp import TwoLayerMLP
from isopix.model.network import Network

LARGE = 2**18  # numbers of a matrix, from which on bf16 is faster; in float32 smaller ones stay in the caches


class RoundedLinear(nn.Linear):
    """A linear layer whose weight is rounded to bf16, and whose product is in bf16, as under autocast; the
    output has the type of the input.
    """

    def __init__(self, layer: nn.Linear):
        super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
        for name, parameter in layer.named_parameters():
            rounded = parameter.detach().bfloat16()
            setattr(self, name, nn.Parameter(rounded, requires_grad=False))

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows outputs"]:
        return F.linear(rows.bfloat16(), self.weight, self.bias).to(rows.dtype)


def with_rounded_matrices(network: Network) -> Network:
    """Return the network with large matrices of attention and of MLPs rounded; it shares everything else."""
    layers = network.backbone.layers
    rounded = {block: cast("Block", _rounded(block)) for block in dict.fromkeys(layers)}
    return Network(
        network.codec, network.backbone.with_blocks([rounded[each] for each in layers]), network.head
    )


def _rounded(module: nn.Module) -> nn.Module:
    """Return the module with its large matrices rounded: itself, if it has none, or else a shallow copy."""
    rounds = isinstance(module, Attention | TwoLayerMLP)
    children: dict[str, nn.Module | None] = {}
    for name, child in module._modules.items():
        if child is not None and rounds and _is_large_matrix(child):
            children[name] = RoundedLinear(child)
        else:
            children[name] = None if child is None else _rounded(child)
    if all(children[name] is child for name, child in module._modules.items()):
        return module
    copied = copy.copy(module)
    copied._modules = children
    return copied


def _is_large_matrix(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Return whether a layer is a large linear layer and no more: no subclass, parametrization or hook."""
    if not isinstance(layer, nn.Linear) or type(layer) is not nn.Linear:
        return False
    return layer.weight.numel() >= LARGE and not layer._forward_hooks and not layer._forward_pre_hooks
