"""Their tensors become float32, and what that costs is written down."""

import pytest
import torch
from torch import Tensor

from isopix.core.types import Grid
from isopix.interop.imported_model import as_many, check_accounts, translate
from isopix.interop.name_tables import Account, same
from tests.unit.data.refusal import refusal


def taken(tensor: Tensor) -> tuple[Tensor, Account]:
    tensors, accounts = translate([same("theirs", "ours")], {"theirs": tensor.shape}, lambda name: tensor)
    return tensors["ours"], *accounts


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_float32_can_hold_is_kept_and_called_nothing_else(dtype: torch.dtype) -> None:
    given = torch.tensor([1.5, -2.0, 0.1]).to(dtype).float().to(dtype)
    tensor, account = taken(given)
    assert tensor.dtype == torch.float32
    assert torch.equal(tensor.to(dtype), given)
    assert account == Account("theirs", ("ours",))


def test_what_it_cannot_hold_is_rounded_and_accounted_for() -> None:
    given = torch.tensor([1.5, 0.1], dtype=torch.float64)
    tensor, account = taken(given)
    assert torch.equal(tensor, given.float())
    assert account.rounded == "float64"


@pytest.mark.parametrize("value", [1e300, float("nan"), float("inf")])
def test_what_is_not_finite_in_float32_is_refused(value: float) -> None:
    assert "'theirs' has elements that are not finite" in refusal(taken, torch.tensor([value]).double())


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool, torch.float8_e5m2])
def test_other_numbers_are_no_weights(dtype: torch.dtype) -> None:
    assert f"has elements of {dtype}" in refusal(taken, torch.zeros(2).to(dtype))


def test_what_is_given_must_have_as_many_positions() -> None:
    assert as_many(12, Grid(3, 4)) == Grid(3, 4)
    assert refusal(as_many, 12, Grid(3, 5)) == "it has 12 positions; 3 x 5 are 15"


def test_more_tensors_than_a_record_can_list_are_refused() -> None:
    accounts = [Account(f"model/h{n}/ln_1/g/Adam", skipped="optimizer's state") for n in range(30_000)]
    check_accounts(accounts[:5000])
    assert "the list of its tensors has" in refusal(check_accounts, accounts)
