"""Alternatives are timed in turn, per item; first calls are checked, and those that fail are left out."""

import math
from itertools import count

import pytest
import torch

from isopix.benchmarks import timing
from isopix.benchmarks.numerics import NumericsError
from isopix.benchmarks.timing import Stopwatch, Times, Work, first_line, spread

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still, but for what calls add to it."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def test_alternatives_take_turns_and_are_timed_per_item(clock: list[float]) -> None:
    order: list[str] = []

    def call(name: str, seconds: float) -> None:
        order.append(name)
        clock[0] += seconds

    sides = {
        "ours": {"": Work(call=lambda: call("a", 2.0), items=4)},
        "theirs": {"": Work(call=lambda: call("b", 3.0)), "other": Work(call=lambda: call("c", 5.0))},
    }
    timed = Stopwatch(CPU, repeats=2).alternate(sides)
    assert order == ["a", "b", "c"] * 3
    assert timed.times["ours"] == {"": Times([0.5, 0.5], 2.0)}
    assert timed.times["theirs"] == {"": Times([3.0, 3.0], 3.0), "other": Times([5.0, 5.0], 5.0)}
    assert timed.errors == {}


def test_short_calls_are_repeated_within_a_measurement(clock: list[float]) -> None:
    calls = count()

    def call() -> None:
        next(calls)
        clock[0] += 0.01

    timed = Stopwatch(CPU, repeats=3).alternate({"ours": {"": Work(call=call)}})
    assert timed.times["ours"][""].seconds == pytest.approx([0.01] * 3)
    assert next(calls) == 1 + 1 + 3 * 10  # warm-up, first measurement, repeats


def test_after_its_seconds_it_stops_at_three_repeats(clock: list[float]) -> None:
    def call() -> None:
        clock[0] += 7.0

    timed = Stopwatch(CPU, repeats=20, max_seconds=1.0).alternate({"ours": {"": Work(call=call)}})
    assert len(timed.times["ours"][""].seconds) == 3


def test_work_without_warm_up_is_called_for_its_repeats_only(clock: list[float]) -> None:
    calls = count()

    def call() -> None:
        next(calls)
        clock[0] += 1.0

    Stopwatch(CPU, repeats=2).alternate({"ours": {"": Work(call=call, warm_up=False)}})
    assert next(calls) == 2


def fail() -> None:
    raise RuntimeError("out of memory\nand more")


def test_an_alternative_that_fails_is_left_out_unless_it_is_the_only_one() -> None:
    works, fails = Work(call=lambda: None), Work(call=fail)
    timed = Stopwatch(CPU, repeats=1).alternate({"theirs": {"eager": works, "compiled": fails}})
    assert set(timed.times["theirs"]) == {"eager"}
    assert timed.errors == {"theirs, compiled": "RuntimeError: out of memory"}
    with pytest.raises(RuntimeError, match="theirs: RuntimeError: out of memory"):
        Stopwatch(CPU, repeats=1).alternate({"theirs": {"compiled": fails}})


def test_a_wrong_result_of_a_first_call_is_an_error() -> None:
    def check(result: object) -> None:
        if result != 2:
            raise NumericsError(f"{result} instead of 2")

    Stopwatch(CPU, repeats=1).alternate({"ours": {"": Work(call=lambda: 2, check=check)}})
    with pytest.raises(NumericsError, match="3 instead of 2"):
        Stopwatch(CPU, repeats=1).alternate({"ours": {"": Work(call=lambda: 3, check=check)}})
    right, wrong = (Work(call=lambda x=x: x, check=check, optional=x != 2) for x in (2, math.nan))
    timed = Stopwatch(CPU, repeats=1).alternate({"ours": {"eager": right, "compiled": wrong}})
    assert set(timed.times["ours"]) == {"eager"}
    assert timed.errors == {"ours, compiled": "NumericsError: nan instead of 2"}
    needed = Work(call=lambda: math.nan, check=check)
    for works in ({"eager": needed, "compiled": right}, {"lbfgs": right, "newton": needed}):
        with pytest.raises(NumericsError, match="nan instead of 2"):
            Stopwatch(CPU, repeats=1).alternate({"theirs": works})


def test_spread_is_number_median_and_range() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"n": 3, "median": 2.0, "min": 1.0, "max": 3.0}
    assert Times([1.0], 4.0).to_dict() == {"n": 1, "median": 1.0, "min": 1.0, "max": 1.0, "first_call": 4.0}


def test_the_rate_of_matrix_products_counts_their_flops(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing.Stopwatch, "seconds", lambda *_: 0.5)
    assert Stopwatch(CPU).matmul_rate(8) == 2 * 2048 * 8 * 32 / 0.5


def test_the_first_line_of_an_error_has_its_type() -> None:
    assert first_line(ValueError("one\ntwo")) == "ValueError: one"
    assert first_line(KeyError()) == "KeyError: "
