"""The headline and the summary: the main metric, its baselines, and what cannot be compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.probing.config import ProbeConfig
from isopix.recipes import igpt
from isopix.reporting.run_record import RunRecord, read_run
from isopix.reporting.summary import headline, incomparable, summary_rows
from isopix.reporting.training import held_out_loss, images_seen, training_cost, uniform_classes
from tests.unit.reporting.cases import (
    bare,
    baselines,
    evidence,
    fine_tuned,
    measurement,
    records,
    regression,
    whole,
    write_log,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return read_run(whole(tmp_path_factory.mktemp("runs") / "run"))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_headline_is_the_best_layer_its_gain_and_interval(run: RunRecord) -> None:
    assert plain(headline({"run": run})) == (
        "Probe test accuracy: 50.0 % at layer 1, +10.0 points (95 % interval +8.0 to +100.0) relative to the"
        " best baseline, raw pixels. Test loss: 1.80 nats per pixel."
    )
    empty = replace(run, results=[], log=[])
    assert headline({"run": empty}) == "Not evaluated yet."


def test_the_headline_of_several_runs_names_the_best(run: RunRecord, tmp_path: Path) -> None:
    better = replace(run, results=[evidence((0.3, 0.9, 0.4))])
    tuned = read_run(fine_tuned(tmp_path / "tuned"))
    text = plain(headline({"a": run, "b": better, "c": tuned}))
    assert text.startswith("Probe test accuracy (b, the highest of 2): 90.0 % at layer 1")
    assert "Test accuracy after fine-tuning (c): 60.0 %, 95 % interval 53.0 % to 67.0 %." in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config": ProbeConfig(pool="max")}, "pool"),
        ({"method": {"kind": "knn"}}, "settings of the method"),
        ({"measurement": measurement(images_hash="b")}, "images"),
        ({"config": ProbeConfig(pool="mean", seed=7)}, ""),
    ],
)
def test_probes_of_other_images_or_settings_are_not_compared(
    run: RunRecord, changes: dict[str, Any], reason: str
) -> None:
    runs = {"a": run, "b": replace(run, results=[evidence(**changes)])}
    assert reason in incomparable(runs)
    assert bool(incomparable(runs)) == bool(reason)
    shared = [row for row in summary_rows(runs) if row.kind == "shared"]
    assert bool(shared) != bool(reason)


def test_the_summary_has_every_run_with_its_baselines(run: RunRecord, tmp_path: Path) -> None:
    rows = summary_rows({"a": run, "b": run, "c": read_run(fine_tuned(tmp_path / "tuned"))})
    names = [row.name for row in rows]
    own = ["untrained", "top neighbor", "shuffled labels"]
    assert names[:8] == ["a", *own, "b", *own]
    assert names[8:10] == ["c", "fine-tuned"]
    assert names[-2:] == ["raw pixels (64 features)", "majority class"]
    first, untrained, best = rows[:3]
    assert (first.loss, first.layer, first.accuracy, first.low, first.high) == (1.8, 1, 0.5, 0.48, 0.52)
    assert (untrained.loss, untrained.accuracy) == (pytest.approx(2.833, abs=1e-3), 0.3)
    assert (best.loss, best.accuracy) == (1.766, None)


def test_a_regression_has_no_uniform_prediction(tmp_path: Path) -> None:
    record = read_run(bare(tmp_path / "run", regression()))
    assert uniform_classes(record) is None
    assert summary_rows({"run": record})[1].loss is None


def test_the_held_out_loss_is_of_test_then_of_validation(tmp_path: Path) -> None:
    run = bare(tmp_path / "run")
    write_log(run, [*records(), baselines("validation")])
    found = held_out_loss(read_run(run))
    assert found is not None
    assert (found.nats, found.split, found.measurement.count) == (1.8, "test", "64 test images of digits")
    write_log(run, records()[:-1])
    assert (again := held_out_loss(read_run(run))) is not None
    assert (again.nats, again.split) == (1.9, "validation")


def test_the_cost_of_training_is_what_was_measured(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", igpt.digits())
    measured = {"seconds": 7260, "peak_memory_bytes": 2**30, "energy_joules": 7200}
    write_log(run, [{"kind": "train", "step": 10, "images": 80, "loss_nats": 2.0, **measured}])
    cost = dict(training_cost(read_run(run)))
    assert cost["images seen"] == "80"
    assert cost["training time"] == "2 h 1 min"
    assert cost["peak memory of the process"] == "1.0 GiB"
    assert cost["energy of the machine's processors"] == "2 Wh"
    assert cost["computation"].endswith("FLOP")
    write_log(run, [])
    assert images_seen(read_run(run)) == 0
