"""Blocks compute the equations of their papers, at the papers' sizes and costs, cached or not."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from isopix.core.types import Grid, Tokens
from isopix.model.blocks.axial import AxialSpec
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import Block, BlockSpec, TransformerBlock, TransformerSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from tests.laws import cases

GRID, WIDTH = Grid(3, 4), 5
N = GRID.positions
PAPER = Grid(32, 32)
PRECEDING = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 0)]
FOLLOWING = [(0, 1), (1, -1), (1, 0), (1, 1)]
both = pytest.mark.parametrize("causal", [False, True])
units = pytest.mark.parametrize("units", [None, 1, 5, 24, 31], ids=str)


def draw(block: BlockSpec, *, causal: bool, grid: Grid = GRID) -> Block:
    """A block in float64 of which every parameter is random, the norms' gains and biases too."""
    built = block.build(grid, WIDTH, causal).double()
    cases.randomize(built, torch.Generator().manual_seed(0))
    return built


def tokens(grid: Grid = GRID) -> Tokens:
    """Two random images in float64."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, grid.positions, WIDTH, generator=generator, dtype=torch.float64)


def normed(x: Tokens, norm: nn.Module) -> Tokens:
    """Layer norm by its definition."""
    centered = x - x.mean(-1, keepdim=True)
    scale = (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centered / scale * norm.weight + norm.bias


def gelu(x: torch.Tensor) -> torch.Tensor:
    """x P(Z < x) for a standard normal Z."""
    return x * (1 + torch.erf(x / 2**0.5)) / 2


def convolved(x: Tokens, conv: nn.Module, causal: bool) -> Tokens:
    """Position by position and tap by tap."""
    output = conv.bias.expand(x.shape).clone()
    for row in range(GRID.rows):
        for col in range(GRID.cols):
            for tap, (down, right) in enumerate(PRECEDING if causal else PRECEDING + FOLLOWING):
                if 0 <= row + down < GRID.rows and 0 <= col + right < GRID.cols:
                    there = x[:, (row + down) * GRID.cols + col + right]
                    output[:, row * GRID.cols + col] += there @ conv.weight[..., tap].T
    return output


@both
def test_a_convolution_block_is_the_papers_equations(causal: bool) -> None:
    block, x = draw(ConvolutionSpec(), causal=causal), tokens()
    middle = x + gelu(convolved(normed(x, block.norm1), block.conv1, causal))
    expected = middle + gelu(convolved(normed(middle, block.norm2), block.conv2, causal))
    torch.testing.assert_close(block(x), expected)


@both
@units
def test_a_mixer_block_is_the_papers_equations(causal: bool, units: int | None) -> None:
    """Equations 2 and 3 as printed; causally, unit j reads positions up to its own, and is read from its own
    on. FLOPs are two for each weight that is not masked.
    """
    spec = MixerSpec(units=units, mlp=TwoLayerMLPSpec(expansion=2))
    block, x, count = draw(spec, causal=causal), tokens(), units or N
    places = torch.arange(count) * N // count
    back, on = (torch.arange(N) <= places[:, None]).double(), (torch.arange(N) >= places[:, None]).double()
    if not causal:
        back, on = torch.ones_like(back), torch.ones_like(on)
    mlp, given = block.token_mlp, normed(x, block.norm1)
    hidden = gelu((mlp.up.weight * back) @ given + mlp.up.bias[:, None])
    middle = x + (mlp.down.weight * on.T) @ hidden + mlp.down.bias[:, None]
    turned = normed(middle, block.norm2).mT
    inner = gelu(block.mlp.up.weight @ turned + block.mlp.up.bias[:, None])
    expected = (middle.mT + block.mlp.down.weight @ inner + block.mlp.down.bias[:, None]).mT
    torch.testing.assert_close(block(x), expected)
    weights = int(back.sum() + on.sum())
    assert spec.flops(GRID, WIDTH, causal) == 2 * WIDTH * weights + 2 * 2 * N * 2 * WIDTH**2


def published() -> Iterator[tuple[BlockSpec, bool, int, int]]:
    """Parameters of a block of width 128 and FLOPs per position of 32 x 32, where no recipe of the study of
    inductive biases has it; a causal convolution has five of nine taps.
    """
    yield ConvolutionSpec(), True, 2 * (5 * 128**2 + 128) + 4 * 128, 2 * 2 * 5 * 128**2
    for heads in (1, 4):
        block = TransformerSpec(heads=heads, attention_bias=True, norm=LayerNormSpec(), mlp=TwoLayerMLPSpec())
        yield block, False, 198_272, 917_504
    yield AxialSpec(heads=2), False, 2 * (12 * 128**2 + 13 * 128), 2 * 2 * 12 * 128**2 + 2 * 4 * 32 * 128


@pytest.mark.parametrize(("block", "causal", "parameters", "flops"), list(published()))
def test_parameters_and_flops_are_the_papers(
    block: BlockSpec, causal: bool, parameters: int, flops: int
) -> None:
    built = block.build(PAPER, 128, causal)
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters
    assert block.flops(PAPER, 128, causal) == 1024 * flops


def block_of(**settings: float) -> tuple[TransformerBlock, torch.Tensor]:
    torch.manual_seed(0)
    return TransformerSpec(heads=2, **settings).build(PAPER, 8, causal=False), torch.randn(4, 6, 8)


def test_dropout_of_the_residual_branches_zeroes_and_scales_in_training() -> None:
    block, tokens = block_of(dropout=0.25)
    torch.nn.init.zeros_(block.mlp.down.weight)  # the attention alone adds something
    whole = block.eval()(tokens) - tokens
    dropped = block.train()(tokens) - tokens
    kept = dropped.abs() > 1e-6
    assert torch.allclose(dropped[kept], (whole / 0.75)[kept], atol=1e-5)
    assert 0.6 < kept.float().mean() < 0.9


def test_the_last_block_leaves_out_images_at_the_rate_of_drop_path_and_evaluations_none() -> None:
    """An image is left out by both branches, by neither, or by one; what is kept is divided by 1 - rate."""
    recipe = cases.CASES[0].updated(depth=3, drop_path=0.5)
    blocks = cases.network(recipe).backbone.layers
    assert [block.dropout.drop_path for block in blocks] == [0.0, 0.25, 0.5]
    block, tokens = block_of()
    tokens = torch.randn(4000, 2, 8)
    torch.nn.init.zeros_(block.mlp.down.weight)  # the attention alone adds something
    whole = block.train()(tokens) - tokens
    block.set_drop_path(0.25)
    assert torch.equal(block.eval()(tokens) - tokens, whole)
    dropped = block.train()(tokens) - tokens
    kept = dropped.flatten(1).any(1)
    torch.testing.assert_close(dropped[kept], (whole / 0.75)[kept], rtol=1e-4, atol=1e-5)
    assert 0.72 < kept.float().mean() < 0.78


def test_dropout_of_attention_weights_keeps_the_mean_and_is_not_in_evaluation() -> None:
    block, tokens = block_of(attention_dropout=0.25)
    attention, plain = block.attention, block_of()[0].attention
    plain.load_state_dict(attention.state_dict())
    whole = attention.eval()(tokens)
    assert torch.equal(whole, plain.train()(tokens))
    drawn = torch.stack([attention.train()(tokens) for _ in range(4000)])
    assert (drawn.mean(0) - whole).abs().max() < 5 * drawn.std(0).max() / 4000**0.5
    assert drawn.std(0).min() > 0
