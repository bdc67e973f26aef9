"""The record of a benchmark, and which alternatives are compared."""

from dataclasses import dataclass

import pytest
import torch

from isopix.benchmarks.benchmark import OWN, Benchmark, Measured, Size, best, comparisons
from isopix.benchmarks.timing import Stopwatch, Times

WATCH = Stopwatch(torch.device("cpu"), repeats=1)


@dataclass(frozen=True, kw_only=True)
class Count(Size):
    count: int

    def label(self) -> str:
        return f"{self.count} images"


TIMES = {
    OWN: {"eager": Times([4.0, 2.0, 3.0]), "compiled": Times([2.0, 2.0, 2.5])},
    "peer": {"eager": Times([6.0, 5.0, 7.0]), "slow": Times([60.0, 50.0, 70.0])},
    "bound": {"": Times([0.5])},
}


def counting(size: Count, watch: Stopwatch) -> Measured:
    return Measured(checked=f"{size.count} checked", times=TIMES, values={"bytes": 3})


def benchmark(**changes: object) -> Benchmark[Count]:
    settings = {"name": "counting.all", "work": "counting", "peer": "peer", "measure": counting}
    return Benchmark(**{**settings, "sizes": {"cpu": Count(count=2)}, **changes})


def test_each_side_counts_with_its_best_alternative() -> None:
    assert best(TIMES["peer"])[0] == "eager"
    first, bound = comparisons("counting", TIMES)
    assert (first["peer"], first["isopix_alternative"], first["speedup"], first["n"]) == (
        "peer, eager",
        "compiled",
        3,
        3,
    )
    assert first["peer_seconds"] == {"n": 3, "median": 6.0, "min": 5.0, "max": 7.0, "first_call": 0.0}
    assert (bound["peer"], bound["speedup"]) == ("bound", 0.25)
    assert comparisons("checks alone", {}) == []


def test_the_record_has_sizes_checks_and_all_alternatives() -> None:
    record = benchmark().run("cpu", WATCH)
    assert set(record) == {"sizes", "checked", "item", "alternatives", "errors", "values", "comparisons"}
    assert (record["sizes"], record["checked"]) == ({"count": 2}, "2 checked")
    assert set(record["alternatives"]["peer"]) == {"eager", "slow"}
    assert record["comparisons"][0]["task"] == "counting, 2 images"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"needs": ("no_such_module",)}, "no_such_module is not installed: pip install 'isopix[bench]'"),
        ({"sizes": {"cuda": Count(count=1)}}, "it has sizes for cuda only"),
        ({}, None),
    ],
)
def test_it_is_skipped_without_its_peer_and_without_a_size(changes: dict, reason: str | None) -> None:
    assert benchmark(**changes).reason_to_skip("cpu") == reason
