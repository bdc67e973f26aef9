import pytest
import torch
from torch import nn

from isopix.core.types import Grid, Tokens
from isopix.model.blocks.convolution import ConvolutionSpec
from tests.unit.model.blocks.cases import GRID, decoded, draw, gelu, normed, tokens

PRECEDING = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 0)]
FOLLOWING = [(0, 1), (1, -1), (1, 0), (1, 1)]
both = pytest.mark.parametrize("causal", [False, True])


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
def test_a_block_is_the_papers_equations(causal: bool) -> None:
    block, x = draw(ConvolutionSpec(), causal=causal), tokens()
    middle = x + gelu(convolved(normed(x, block.norm1), block.conv1, causal))
    expected = middle + gelu(convolved(normed(middle, block.norm2), block.conv2, causal))
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("lengths", [[1] * 12, [12], [5, 1, 1, 1, 1, 1, 1, 1], [3, 6, 3]], ids=str)
def test_cached_runs_of_any_length_equal_one_forward_pass(lengths: list[int]) -> None:
    block, x = draw(ConvolutionSpec(), causal=True), tokens()
    torch.testing.assert_close(torch.cat([*decoded(block, x, lengths)], 1), block(x))


@both
def test_a_causal_block_has_no_unused_parameters(causal: bool) -> None:
    """Width 128: the paper's 295,680; a causal one has five of the nine taps."""
    block = ConvolutionSpec().build(Grid(32, 32), 128, causal)
    count = 2 * ((5 if causal else 9) * 128 * 128 + 128) + 2 * 2 * 128
    assert sum(parameter.numel() for parameter in block.parameters()) == count
    assert causal or count == 295_680


@both
def test_flops_are_two_per_weight_and_position(causal: bool) -> None:
    flops = ConvolutionSpec().flops(Grid(32, 32), 128, causal)
    assert flops == 1024 * 2 * 2 * (5 if causal else 9) * 128 * 128
    assert causal or flops == 1024 * 589_824


def test_away_from_the_border_a_shifted_image_gives_shifted_outputs() -> None:
    grid = Grid(9, 9)
    block = draw(ConvolutionSpec(), causal=False, grid=grid)
    pixels = tokens(grid).view(2, 9, 9, -1)
    moved = block(pixels.roll((1, 1), (1, 2)).flatten(1, 2)).view(pixels.shape)
    outputs = block(pixels.flatten(1, 2)).view(pixels.shape)
    torch.testing.assert_close(moved[:, 3:-2, 3:-2], outputs[:, 2:-3, 2:-3])
