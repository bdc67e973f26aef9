"""The runtime type checker of the tests refuses wrong types, of functions with array types and without."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pytest
import torch
from jaxtyping import TypeCheckError, config

from isopix.codecs.base import Codec
from isopix.codecs.bytes import BytesSpec
from isopix.core.registry import kinds
from isopix.core.types import Grid, Images
from isopix.data.splits import balanced_subset
from isopix.plots import style
from tests import typecheck


@pytest.fixture
def codec() -> Codec:
    return BytesSpec().placeholder(Grid(2, 2))


def test_a_wrong_type_without_array_types_is_refused() -> None:
    with pytest.raises(TypeCheckError, match="noun"):
        kinds(3)
    with pytest.raises(TypeCheckError, match="height"):
        style.new_figure("high")


def test_a_wrong_shape_or_type_of_array_is_refused(codec: Codec) -> None:
    with pytest.raises(TypeCheckError):
        codec.encode(torch.zeros(3, 2, 2, dtype=torch.uint8))
    with pytest.raises(TypeCheckError):
        codec.encode(torch.zeros(1, 3, 2, 2))
    with pytest.raises(TypeCheckError):
        balanced_subset(torch.zeros(4, 2, dtype=torch.long), 1, torch.Generator())


def double(number: int) -> int:
    return 2 * number


def broken(number: int) -> str:
    return 2 * number  # type: ignore[return-value]


def test_arguments_and_results_are_checked_once_and_as_users_have_it_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decorate: Callable[[Any], Any] = typecheck.jaxtyped(typechecker=None)
    assert decorate(double)(2) == 4
    for function, given in ((double, "two"), (broken, 2)):
        with pytest.raises(TypeCheckError):
            decorate(function)(given)
    monkeypatch.setattr(config, "jaxtyping_disable", True)
    assert decorate(double)("two") == "twotwo"


@pytest.mark.parametrize(
    "hint",
    [
        Images,
        list[Images],
        Images | None,
        Callable[[Images], int],
        TypeVar("T", bound=Images),
        "Codec",
        list["Codec"],
        Annotated[Images, "pixels"],
    ],
)
def test_functions_with_array_types_are_left_to_jaxtyping(hint: object) -> None:
    assert typecheck.has_shape(hint)


@pytest.mark.parametrize("hint", [int, None, list[Path], Callable[[str], int], TypeVar("T", bound=Codec)])
def test_others_are_not(hint: object) -> None:
    assert not typecheck.has_shape(hint)
