"""Ranges are checked when settings are made, say what is allowed, and hold for members of a union."""

import math
from typing import Annotated

import pytest

from isopix.core.config import config
from isopix.core.ranges import Count, Probability, Range
from isopix.core.registry import Part


@config
class Checked:
    count: Count = 1
    share: Probability = 0.5
    rate: Annotated[float, Range(above=0)] = 1.0
    limit: Count | None = None
    open: Annotated[float, Range(low=0, below=1)] = 0.0


class Sized(Part):
    side: Count = 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count is 0; allowed: 1 or more"),
        ({"share": 1.5}, "share is 1.5; allowed: 0 to 1"),
        ({"share": math.nan}, "share is nan; allowed: 0 to 1"),
        ({"rate": 0.0}, "rate is 0.0; allowed: above 0"),
        ({"rate": math.inf}, "rate is inf; allowed: above 0"),
        ({"limit": 0}, "limit is 0; allowed: 1 or more"),
        ({"open": 1.0}, "open is 1.0; allowed: 0 or more and below 1"),
    ],
)
def test_settings_outside_their_range_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the message is compared below
        Checked(**values)
    assert str(error.value) == message


def test_limits_belong_to_the_range() -> None:
    assert Checked(count=1, share=1.0, limit=None, open=0.0).share == 1


def test_parts_are_checked_too() -> None:
    with pytest.raises(ValueError, match="side is 0; allowed: 1 or more"):
        Sized(side=0)
