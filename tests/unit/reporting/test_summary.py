"""Which runs cannot be compared, which loss is reported, and what training has cost."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.probing.config import ProbeConfig
from isopix.recipes import igpt
from isopix.reporting.run_record import RunRecord, read_run
from isopix.reporting.summary import incomparable, summary_rows
from isopix.reporting.training import held_out_loss, images_seen, training_cost
from tests.unit.reporting.cases import bare, baselines, evidence, measurement, records, whole, write_log


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return read_run(whole(tmp_path_factory.mktemp("runs") / "run"))


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
