import pytest
import torch
from einops import rearrange

from isopix.core.types import Grid
from isopix.model.blocks.transformer import AxialSpec
from isopix.model.mlp import TwoLayerMLPSpec
from tests.unit.model.blocks import cases

BLOCK = AxialSpec(heads=1, mlp=TwoLayerMLPSpec(expansion=2))
ROWS, COLS = cases.GRID


def test_a_rows_change_reaches_only_its_row_in_the_first_half() -> None:
    block, given = cases.draw(BLOCK, causal=False), cases.tokens()
    other = given.clone()
    other[:, 1 * COLS + 2] = other[:, 1 * COLS + 2].flip(-1)
    halves = [
        block.rows(rearrange(each, "b (h w) d -> (b h) w d", h=ROWS)).view_as(given)
        for each in (given, other)
    ]
    moved = (halves[0] != halves[1]).any(-1)[0].view(ROWS, COLS)
    assert moved.tolist() == [[row == 1] * COLS for row in range(ROWS)]
    assert (block(given) != block(other)).any(-1).all()


def test_the_second_half_runs_along_columns() -> None:
    """What the first half puts into a column reaches that column alone."""
    block, given = cases.draw(BLOCK, causal=False), cases.tokens()
    for parameter in block.rows.parameters():
        torch.nn.init.zeros_(parameter)
    other = given.clone()
    other[:, 1 * COLS + 2] = other[:, 1 * COLS + 2].flip(-1)
    moved = (block(given) != block(other)).any(-1)[0].view(ROWS, COLS)
    assert moved.tolist() == [[col == 2 for col in range(COLS)] for _ in range(ROWS)]


def test_an_axial_block_has_no_causal_form() -> None:
    with pytest.raises(ValueError, match="an axial block has no causal form; use block=transformer"):
        BLOCK.build(cases.GRID, cases.WIDTH, True)


def test_flops_are_those_of_two_transformer_blocks_along_rows_and_columns() -> None:
    matrices = 2 * 8 * 8 * (4 + 2 * 4)
    expected = 12 * (matrices + 4 * 4 * 8) + 12 * (matrices + 4 * 3 * 8)
    assert AxialSpec(heads=2).flops(Grid(3, 4), 8, False) == expected
