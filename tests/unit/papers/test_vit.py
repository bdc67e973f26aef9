"""The review's cost table, to the dollar."""

import pytest

from isopix.papers import vit


@pytest.mark.parametrize(
    ("place", "hours", "dollars"),
    [(0, 60_000, 149_700), (1, 16_320, 40_718), (2, 237_600, 592_812), (3, 295_200, 736_524)],
)
def test_tpu_days_cost_what_they_cost(place: int, hours: float, dollars: int) -> None:
    found = vit.bill(vit.TRAININGS[place])
    assert found.tpu_hours == hours
    assert round(found.dollars) == dollars


def test_the_reviews_words_are_its_sums_rounded() -> None:
    for training in vit.TRAININGS:
        if training.words:
            assert training.words == f"${vit.bill(training).dollars / 1000:.0f}K"


def test_four_v100s_take_111_8_days_not_110() -> None:
    assert vit.bill(vit.TRAININGS[1]).v100_days == pytest.approx(680 / 6.08)
    assert round(vit.bill(vit.TRAININGS[1]).v100_days, 1) == 111.8
