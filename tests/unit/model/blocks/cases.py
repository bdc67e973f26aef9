"""Shared by the tests of blocks: a grid that is not square, random tokens, and random weights."""

from collections.abc import Iterator

import torch
from torch import nn

from isopix.core.types import Grid, Tokens
from isopix.model.blocks.base import Block, BlockSpec

GRID = Grid(3, 4)
WIDTH = 5


def draw(block: BlockSpec, *, causal: bool, grid: Grid = GRID) -> Block:
    """A block in float64 of which every parameter is random, the norms' gains and biases too."""
    built = block.build(grid, WIDTH, causal).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return built


def tokens(grid: Grid = GRID) -> Tokens:
    """Two random images in float64."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, grid.positions, WIDTH, generator=generator, dtype=torch.float64)


def decoded(block: Block, given: Tokens, lengths: list[int]) -> Iterator[Tokens]:
    """The outputs of `forward_cached` for so many positions at a time."""
    cache = block.new_cache(given.shape[1])
    for part in given.split(lengths, 1):
        yield block.forward_cached(part, cache)


def normed(x: Tokens, norm: nn.Module) -> Tokens:
    """Layer norm by its definition."""
    centered = x - x.mean(-1, keepdim=True)
    scale = (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centered / scale * norm.weight + norm.bias


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x P(Z < x) for a standard normal Z."""
    return x * (1 + torch.erf(x / 2**0.5)) / 2
