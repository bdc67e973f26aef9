"""A run of benchmarks: selection, order, what is skipped, and what fails."""

from dataclasses import replace

import pytest

from isopix.benchmarks import run
from isopix.benchmarks.networks import find_recipe
from isopix.benchmarks.numerics import NumericsError
from isopix.benchmarks.run import BENCHMARKS, BenchmarkPlan, run_benchmarks, select_benchmarks
from tests.unit.benchmarks.tiny import CPU, find

PLAN = BenchmarkPlan(device=CPU, tiny=True)


def test_correctness_comes_first_and_names_are_unique() -> None:
    names = [each.name for each in BENCHMARKS]
    assert names[0] == "correctness"
    assert len(set(names)) == len(names)
    sizes = {size for each in BENCHMARKS for size in each.sizes}
    assert sizes == {"cpu", "cuda", "tiny"}


def test_every_recipe_of_every_size_is_there_and_is_labeled() -> None:
    sizes = [size for each in BENCHMARKS for size in each.sizes.values()]
    for size in sizes:
        assert size.label()
        if hasattr(size, "recipe"):
            find_recipe(size.recipe, getattr(size, "settings", ())).outline()
    assert len(sizes) > 30


def test_prefixes_select_in_the_order_of_the_table() -> None:
    names = [each.name for each in select_benchmarks(["sampling.batch-4", "correct"])]
    assert names == ["correctness", "sampling.batch-4"]
    assert select_benchmarks([]) == list(BENCHMARKS)
    with pytest.raises(
        ValueError, match="no benchmark's name starts with 'speed'; benchmarks: correctness, "
    ):
        select_benchmarks(["speed"])


def test_sizes_repeats_and_seconds_are_those_of_the_device() -> None:
    assert (PLAN.size, PLAN.watch.repeats) == ("tiny", 1)
    plan = replace(PLAN, tiny=False)
    assert (plan.size, plan.watch.repeats, plan.watch.max_seconds) == ("cpu", 5, 600.0)
    assert replace(plan, repeats=3).watch.repeats == 3


def test_an_error_is_a_record_and_the_next_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size: object, watch: object) -> None:
        raise NumericsError("logits differ\nby much")

    fails = replace(find("probe.sweep"), name="fails", measure=fail)
    missing = replace(fails, name="missing", needs=("no_such_module",))
    monkeypatch.setattr(run, "BENCHMARKS", (fails, missing, find("probe.sweep")))
    started: list[str] = []
    failed, skipped, measured = run_benchmarks(PLAN, started.append)
    assert (failed["state"], failed["reason"]) == ("failed", "NumericsError: logits differ")
    assert (skipped["state"], skipped["reason"][:14]) == ("skipped", "no_such_module")
    assert (measured["state"], measured["name"]) == ("measured", "probe.sweep")
    assert started == ["fails", "probe.sweep"]


def test_nothing_is_started_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BENCHMARKS", (find("probe.sweep"),))
    [record] = run_benchmarks(replace(PLAN, minutes=1e-9))
    assert (record["state"], record["reason"]) == ("skipped", "not started within 1e-09 minutes")
