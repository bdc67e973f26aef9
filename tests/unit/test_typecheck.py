"""The runtime type checker of the tests refuses wrong arrays, also after correct calls of the same form."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError, UInt8
from torch import Tensor

from isopix.codecs.patches import BytesSpec
from isopix.core.types import Grid
from isopix.data.splits import balanced_subset
from tests import typecheck


def test_a_wrong_shape_or_type_of_array_is_refused() -> None:
    codec = BytesSpec().placeholder(Grid(2, 2))
    with pytest.raises(TypeCheckError):
        codec.encode(torch.zeros(3, 2, 2, dtype=torch.uint8))
    with pytest.raises(TypeCheckError):
        codec.encode(torch.zeros(1, 3, 2, 2))
    with pytest.raises(TypeCheckError):
        balanced_subset(torch.zeros(4, 2, dtype=torch.long), 1, torch.Generator())


@pytest.mark.parametrize(
    "planted",
    [
        lambda images: images[0],
        lambda images: images[:, :2],
        lambda images: images.float(),
        lambda images: torch.cat([images, images]),
    ],
)
def test_a_mistake_is_found_after_correct_calls(planted: Callable[[Any], Any]) -> None:
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
