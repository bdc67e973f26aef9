"""How many 24-bit colors each code stands for."""

import numpy as np
import pytest
import torch
from scipy.spatial import KDTree
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.codecs.palette import Palette
from isopix.codecs.patches import (
    BytesSpec,
    FullPatchSpec,
)
from isopix.core.types import Grid

GRID = Grid(2, 2)


def random_palette(size: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return (torch.rand(size, 3, generator=draw) * 255 * 4096).round() / 4096  # exact in fixed point


def all_colors() -> np.ndarray:
    index = np.arange(2**24)
    return np.stack([index >> 16, index >> 8 & 255, index & 255], 1)


@pytest.mark.parametrize("size", [2, 7])
def test_the_counts_of_a_palette_are_those_of_a_search_over_all_colors(size: int) -> None:
    colors = random_palette(size)
    found = Palette(colors, GRID).values_per_code()
    parts = np.square(np.arange(256) - colors.double().numpy()[:, :, None])  # exact, and so are their sums
    squared = [red[:, None, None] + green[:, None] + blue for red, green, blue in parts]
    assert found.tolist() == np.bincount(np.argmin(squared, axis=0).ravel(), minlength=size).tolist()
    assert found.dtype == torch.int64


def test_the_counts_of_512_colors_are_those_of_a_k_d_tree_on_a_slice_of_the_cube() -> None:
    """One red level of each; the sum over all is that of the cube."""
    colors = random_palette(512)
    palette = Palette(colors, GRID)
    counts = palette.values_per_code()
    assert int(counts.sum()) == 2**24
    assert palette.table is not None
    red = np.arange(256)[:, None] * 65536 + np.arange(0, 65536, 97)
    cube = all_colors()[red.ravel()]
    expected = KDTree(colors.double().numpy()).query(cube)[1]
    assert np.array_equal(palette.table[torch.from_numpy(red.ravel())].numpy(), expected)


@pytest.mark.parametrize("codec", [BytesSpec().build(GRID), FullPatchSpec(patch_size=2).build(GRID)])
def test_a_byte_is_one_value(codec: Codec) -> None:
    counts = codec.values_per_code()
    assert counts is not None
    assert counts.tolist() == [1] * 256
