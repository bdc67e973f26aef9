"""The convolution of embeddings: what it computes."""

import pytest
import torch

from isopix.core.types import Grid
from isopix.model.embedding_conv import EmbeddingConv

GRID = Grid(3, 4)


@pytest.mark.parametrize("causal", [False, True])
def test_taps_are_in_raster_order_and_causally_none_is_later(causal: bool) -> None:
    """3 rows of 5 taps; causally the last row is the position's own, up to itself."""
    conv = EmbeddingConv(GRID, 6, causal).double()
    torch.nn.init.normal_(conv.weight)
    x = torch.randn(2, GRID.positions, 6, dtype=torch.float64)
    offsets = [(row, col) for row in (-2, -1, 0) for col in (-2, -1, 0, 1, 2)]
    offsets = offsets[:13] if causal else [(row + 1, col) for row, col in offsets]
    expected = x.clone()
    for row in range(GRID.rows):
        for col in range(GRID.cols):
            for tap, (down, right) in enumerate(offsets):
                if 0 <= row + down < GRID.rows and 0 <= col + right < GRID.cols:
                    there = x[:, (row + down) * GRID.cols + col + right]
                    expected[:, row * GRID.cols + col] += there * conv.weight[:, tap]
    torch.testing.assert_close(conv(x), expected)
