import pytest
import torch

from isopix.core.types import Grid
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from tests.unit.model.blocks.cases import GRID, WIDTH, decoded, draw, gelu, normed, tokens

N = GRID.positions
PAPER = Grid(32, 32)
both = pytest.mark.parametrize("causal", [False, True])
units = pytest.mark.parametrize("units", [None, 1, 5, 24, 31], ids=str)


@both
@units
def test_a_block_is_the_papers_equations(causal: bool, units: int | None) -> None:
    """Equations 2 and 3 as printed; causally, unit j reads positions up to its own, and is read from its own
    on.
    """
    block, x = draw(MixerSpec(units=units, mlp=TwoLayerMLPSpec(expansion=2)), causal=causal), tokens()
    count = units or N
    places = [j * N // count for j in range(count)]
    back = torch.tensor([[float(i <= place) for i in range(N)] for place in places], dtype=torch.float64)
    on = torch.tensor([[float(i >= place) for i in range(N)] for place in places], dtype=torch.float64)
    everything = torch.ones_like(back)
    mlp, given = block.token_mlp, normed(x, block.norm1)
    hidden = gelu((mlp.up.weight * (back if causal else everything)) @ given + mlp.up.bias[:, None])
    middle = x + (mlp.down.weight * (on if causal else everything).T) @ hidden + mlp.down.bias[:, None]
    turned = normed(middle, block.norm2).mT
    inner = gelu(block.mlp.up.weight @ turned + block.mlp.up.bias[:, None])
    expected = (middle.mT + block.mlp.down.weight @ inner + block.mlp.down.bias[:, None]).mT
    torch.testing.assert_close(block(x), expected)


@units
@pytest.mark.parametrize("lengths", [[1] * 12, [12], [5, 1, 1, 1, 1, 1, 1, 1], [3, 6, 3]], ids=str)
def test_cached_runs_of_any_length_equal_one_forward_pass(lengths: list[int], units: int | None) -> None:
    block, x = draw(MixerSpec(units=units), causal=True), tokens()
    torch.testing.assert_close(torch.cat([*decoded(block, x, lengths)], 1), block(x))


def test_every_output_depends_on_all_earlier_positions_and_no_later_one() -> None:
    x = tokens()[:1].requires_grad_()
    block = draw(MixerSpec(), causal=True)
    for position in range(N):
        gradient = torch.autograd.grad(block(x)[0, position].sum(), x)[0][0].abs().sum(-1)
        assert (gradient[: position + 1] > 0).all()
        assert not gradient[position + 1 :].any()


@pytest.mark.parametrize(
    ("block", "parameters"),
    [(MixerSpec(), 2_132_736), (MixerSpec(units=128), 296_832)],
    ids=["un-widened", "parameter-matched"],
)
def test_parameters_are_the_papers(block: MixerSpec, parameters: int) -> None:
    found = block.build(PAPER, 128, causal=False)
    assert sum(parameter.numel() for parameter in found.parameters()) == parameters


def test_an_unwidened_block_costs_what_a_convolution_costs() -> None:
    assert MixerSpec().flops(PAPER, 128, causal=False) == 1024 * 589_824


@units
def test_flops_are_two_per_weight_that_is_not_zero(units: int | None) -> None:
    """Of causal matrices, those that are not masked."""
    block = MixerSpec(units=units, mlp=TwoLayerMLPSpec(expansion=3))
    left = sum(int((matrix != 0).sum()) for matrix in draw(block, causal=True).token_mlp._matrices())
    channels = 2 * 2 * N * 3 * WIDTH**2
    assert block.flops(GRID, WIDTH, causal=True) == 2 * WIDTH * left + channels
    assert block.flops(GRID, WIDTH, causal=False) == 2 * WIDTH * 2 * (units or N) * N + channels
