"""What the tests of blocks share: a grid that is not square, random tokens, and a block drawn large."""

from collections.abc import Iterator

import torch
from torch import nn

from isopix.core.types import Grid, Tokens
from isopix.model.blocks import BlockSpec

GRID = Grid(3, 4)
WIDTH = 5


def draw(block: BlockSpec, *, causal: bool, grid: Grid = GRID) -> nn.Module:
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


def stretches(block: nn.Module, given: Tokens, lengths: list[int]) -> Iterator[Tokens]:
    """The answers of `step` to so many positions at a time."""
    cache = block.cache(given.shape[1])
    for part in given.split(lengths, 1):
        yield block.step(part, cache)


def normed(x: Tokens, norm: nn.Module) -> Tokens:
    """Layer norm by its definition."""
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred / scale * norm.weight + norm.bias


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x P(Z < x) for a standard normal Z."""
    return x * (1 + torch.erf(x / 2**0.5)) / 2
