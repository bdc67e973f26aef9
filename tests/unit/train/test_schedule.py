import math
from itertools import pairwise

import pytest

from isopix.train.optim import ConstantSchedule, WarmupCosineSchedule

STEPS, EPOCH = 1000, 50


def factors(schedule: WarmupCosineSchedule, steps: int = STEPS, epoch: int = EPOCH) -> list[float]:
    return [schedule.factor(step, steps=steps, epoch=epoch) for step in range(steps + 1)]


def test_warm_up_takes_one_epoch_and_is_never_zero() -> None:
    rates = factors(WarmupCosineSchedule())
    assert rates[0] == 1 / EPOCH
    assert rates[EPOCH - 1] == 1 == max(rates)
    assert all(later > earlier for earlier, later in pairwise(rates[:EPOCH]))


def test_half_a_cosine_reaches_zero_one_step_after_the_last() -> None:
    rates = factors(WarmupCosineSchedule())
    middle = EPOCH + (STEPS - EPOCH) // 2
    assert rates[middle] == pytest.approx(0.5)
    assert rates[STEPS] == pytest.approx(0, abs=1e-12)
    assert rates[STEPS - 1] == pytest.approx(0.5 * (1 + math.cos(math.pi * (949 / 950))))


def test_a_run_shorter_than_an_epoch_warms_up_for_a_tenth() -> None:
    rates = factors(WarmupCosineSchedule(), steps=100, epoch=5000)
    assert rates.index(1.0) == 9


def test_constant_stays() -> None:
    assert ConstantSchedule().factor(7, steps=10, epoch=3) == 1.0


@pytest.mark.parametrize("wrong", [{"warmup_epochs": -1.0}, {"max_warmup_fraction": 1.0}])
def test_impossible_warm_ups_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(
        ValueError, match=r"warmup_epochs .* must be at least 0, and max_warmup_fraction .* in \[0, 1\)"
    ):
        WarmupCosineSchedule(**wrong)
