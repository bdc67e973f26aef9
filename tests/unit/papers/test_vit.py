"""The review's cost table, to the dollar."""

import pytest
from isopix.papers import vit


@pytest.mark.parametrize(
    ("place", "hours", "dollars"),
    [(0, 60_000, 149_700), (1, 16_320, 40_718), (2, 237_600, 592_812), (3, 295_200, 736_524)],
)
def test_tpu_days_are_priced_per_hour(place: int, hours: float, dollars: int) -> None:
    found = vit.training_price(vit.PUBLISHED_TRAININGS[place])
    assert found.tpu_hours == hours
    assert round(found.dollars) == dollars


def test_the_reviews_prices_are_the_computed_ones_rounded() -> None:
    for training in vit.PUBLISHED_TRAININGS:
        if training.review_price:
            assert training.review_price == f"${vit.training_price(training).dollars / 1000:.0f}K"


def test_four_v100s_take_111_8_days_not_110() -> None:
    assert vit.training_price(vit.PUBLISHED_TRAININGS[1]).v100_days == pytest.approx(680 / 6.08)
    assert round(vit.training_price(vit.PUBLISHED_TRAININGS[1]).v100_days, 1) == 111.8
