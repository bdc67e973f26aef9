"""The runtime type checker of the tests refuses wrong types, of functions with array types and without."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError, UInt8, config
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.codecs.patches import BytesSpec
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
    "planted", [lambda images: images[:, :2], lambda images: images.float(), lambda images: None]
)
def test_a_mistake_is_found_after_correct_calls_with_the_same_arguments(
    planted: Callable[[Any], Any],
) -> None:
    correct = True

    def mirrored(images: UInt8[Tensor, "B 3 H W"]) -> UInt8[Tensor, "B 3 H W"]:
        return images.flip(-1) if correct else planted(images)

    checked, given = typecheck.jaxtyped(typechecker=beartype)(mirrored), torch.zeros(2, 3, 4, 4).byte()
    for _ in range(3):
        assert checked(given).shape == (2, 3, 4, 4)
    correct = False
    for _ in range(2):
        with pytest.raises(TypeCheckError):
            checked(given)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (torch.zeros(2), torch.zeros(2).double()),
        (torch.zeros(2), torch.zeros(2).numpy()),
        ([torch.zeros(2)], (torch.zeros(2),)),
        ({"a": torch.zeros(2)}, {"a": torch.zeros(3)}),
        (1, True),
        ([0] * 1000, [0] * 1000),  # too long for a form
    ],
)
def test_a_form_has_all_that_a_check_depends_on(first: object, second: object) -> None:
    assert typecheck.form(first) != typecheck.form(second)


def test_equal_forms_are_checked_once() -> None:
    assert typecheck.form([torch.zeros(2), 1, {"a": 2.0}]) == typecheck.form([torch.ones(2), 3, {"a": 4.0}])


@pytest.mark.parametrize(
    ("hint", "has_shape"),
    [
        (list[Images] | None, True),
        (Callable[[Images], int], True),
        (TypeVar("T", bound=Images), True),
        (list["Codec"], True),
        (Annotated[Images, "pixels"], True),
        (None, False),
        (Callable[[str], int], False),
        (TypeVar("T", bound=Codec), False),
    ],
)
def test_functions_with_array_types_are_left_to_jaxtyping(hint: object, has_shape: bool) -> None:
    assert typecheck.has_shape(hint) == has_shape
