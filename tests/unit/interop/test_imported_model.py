"""Tensors of others become float32, and what that costs is written down."""

import pytest
import torch
from torch import Tensor

from isopix.core.types import Grid
from isopix.interop.imported_model import convert_tensors, grid_of
from isopix.interop.name_tables import Naming, TensorReport, renamed
from isopix.interop.weights import WeightFiles, mmap_alloc
from tests.unit.data.refusal import refusal


def converted(tensor: Tensor) -> tuple[Tensor, TensorReport]:
    stored = WeightFiles({"source": tuple(tensor.shape)}, lambda name: tensor)
    tensors, reports = convert_tensors(
        stored, Naming("theirs", ""), [renamed("source", "target")], {"target": torch.empty(tensor.shape)}
    )
    return tensors["target"], *reports


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_exact_conversions_to_float32_are_not_reported(dtype: torch.dtype) -> None:
    given = torch.tensor([1.5, -2.0, 0.1]).to(dtype).float().to(dtype)
    tensor, report = converted(given)
    assert tensor.dtype == torch.float32
    assert torch.equal(tensor.to(dtype), given)
    assert report == TensorReport("source", ("target",))


def test_rounding_to_float32_is_reported() -> None:
    given = torch.tensor([1.5, 0.1], dtype=torch.float64)
    tensor, report = converted(given)
    assert torch.equal(tensor, given.float())
    assert report.rounded == "float64"


@pytest.mark.parametrize("value", [1e300, float("nan"), float("inf")])
def test_values_that_are_not_finite_in_float32_are_refused(value: float) -> None:
    assert "'source' has elements that are not finite" in refusal(
        converted, torch.tensor([1.0, value]).double()
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool])
def test_other_dtypes_are_refused(dtype: torch.dtype) -> None:
    assert f"has dtype {dtype}" in refusal(converted, torch.zeros(2).to(dtype))


def test_a_grid_must_have_the_number_of_positions() -> None:
    assert grid_of(12, Grid(3, 4)) == Grid(3, 4)
    assert refusal(grid_of, 12, Grid(3, 5)) == "the model has 12 positions; a grid of 3 x 5 has 15"


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2**14, 2), (2, 2**16, 3)])
def test_a_tensor_in_its_own_pages_has_its_shape_and_takes_values(shape: tuple[int, ...]) -> None:
    assert torch.equal(mmap_alloc(shape, torch.int64).fill_(3), torch.full(shape, 3))
