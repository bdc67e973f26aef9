"""Scratch tensors are ordinary ones, of any size."""

import pytest
import torch

from isopix.interop.mmap_alloc import MMAP_THRESHOLD, mmap_alloc


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (MMAP_THRESHOLD // 8, 2), (2, MMAP_THRESHOLD, 3)])
def test_a_tensor_has_its_shape_and_takes_values(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = mmap_alloc(shape, dtype).fill_(3)
    assert tensor.dtype == dtype
    assert torch.equal(tensor, torch.full(shape, 3, dtype=dtype))
