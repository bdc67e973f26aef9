"""Benchmarks at the smallest sizes: their files, their tables, and what is not timed."""

import importlib
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import ablation_table
import numpy as np
import pytest
import recorded_runs
import time_to_quality
import torch
from run import main
from scipy.stats import ttest_rel
from speed import palettes

import isopix

BENCH = Path(__file__).parents[2] / "bench"


def run(monkeypatch: pytest.MonkeyPatch, out: Path, *names: str) -> tuple[object, list[dict[str, Any]]]:
    """Return the exit status and the records of a run at tiny sizes."""
    words = ["run.py", "--tiny", "--device", "cpu", "--repeats", "2", "--out", str(out), "--only", *names]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, json.loads(out.read_text())["benchmarks"]


@pytest.mark.integration
def test_every_comparison_is_checked_and_in_file_and_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["correctness", "masked.conv", "attention.causal", "patchformer", "batches"]
    names += ["palette.fit", "probe"]
    status, records = run(monkeypatch, tmp_path / "speed.json", *names)
    out = capsys.readouterr().out
    assert status == 0, out
    measured = [each for each in records if each["state"] == "measured"]
    assert {each["name"].partition(".")[0] for each in measured} == {name.partition(".")[0] for name in names}
    for record in measured:
        assert record["checked"]
        for each in record["comparisons"]:
            assert each["n"] == 2
            ratio = each["peer_seconds"]["median"] / each["isopix_seconds"]["median"]
            assert each["speedup"] == pytest.approx(ratio)
    assert "probe.sweep" in out
    assert "peak memory" in out


@pytest.mark.integration
def test_a_benchmark_whose_check_fails_is_not_timed_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(palettes, "EQUAL_ERROR", -1.0)
    status, records = run(monkeypatch, tmp_path / "speed.json", "palette.fit", "probe")
    assert status == "failed: palette.fit"
    assert [each["state"] for each in records] == ["failed", "measured"]


@pytest.mark.parametrize("name", ["training", "masked.conv", "patchformer"])
def test_a_wrong_loss_is_not_timed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"loss_nats": torch.ones(())}
    monkeypatch.setattr("speed.training.TrainStep.__call__", lambda *given, **more: wrong)
    status, records = run(monkeypatch, tmp_path / "speed.json", name)
    assert str(status).startswith("failed: ")
    assert any("NumericsError" in each["reason"] for each in records)


@pytest.mark.parametrize("script", sorted(path.stem for path in BENCH.glob("*.py")))
def test_every_script_can_be_imported(script: str) -> None:
    if script.startswith("reliability"):
        pytest.importorskip("accelerate")
    importlib.import_module(script)


def trained(row: str, seed: int, nats: float, *, lr: float = 0.003, steps: int = 400) -> dict[str, Any]:
    """Return the record of a run, whose loss falls from 6 to `nats` in two straight lines."""
    return {
        "row": row,
        "end": row,
        "seed": seed,
        "steps": steps,
        "lr": lr,
        "flops": 1e9 * steps,
        "seconds": 0.6 * steps,
        "test_nats": nats,
        "validation_nats": {"0": 6.0, str(steps // 2): nats + 1, str(steps): nats},
        "peak_memory_bytes": 2**30,
        "probe": {"num_images": {"train": 10, "test": 10}, "chosen": {"test_accuracy": nats / 10}},
        "sampling_seconds": 0.01,
    }


def recorded(*runs: dict[str, Any]) -> dict[str, Any]:
    about = {"data": "cifar10", "shared": ["size=16"], "threads": 2, "device": "cpu", "isopix": "0"}
    return {**about, "runs": {str(place): run for place, run in enumerate(runs)}}


def test_rows_of_an_ablation_have_tuned_runs_and_are_compared_seed_by_seed() -> None:
    faithful = [trained("faithful", seed, nats) for seed, nats in enumerate((3.1, 3.4, 3.2))]
    modern = [trained("modern", seed, nats) for seed, nats in enumerate((2.9, 3.1, 2.8))]
    found = recorded(trained("faithful", 0, 3.9, lr=0.1), *faithful, *modern)
    known = ttest_rel(*([run["test_nats"] for run in runs] for runs in (modern, faithful)))
    half = (known.confidence_interval(0.95).high - known.confidence_interval(0.95).low) / 2
    text = ablation_table.ablation(found)
    assert f"| modern | 2.933 ± 0.153 | -0.300 ± {half:.3f} |" in text
    assert "| faithful | 3.233 ± 0.153 |" in text
    # From 3.933 at step 200 to 2.933 at step 400, 3.233 is reached at step 340.
    assert "with 85% of faithful's FLOPs" in text


def test_minutes_to_a_loss_are_those_of_the_shortest_schedule_that_ends_there() -> None:
    peer = [trained("transformers", seed, nats, steps=800) for seed, nats in enumerate((3.1, 3.2))]
    sides = [trained(side, 0, nats, steps=100) for side, nats in (("faithful", 3.4), ("modern", 3.1))]
    form = {"row": time_to_quality.FORM, "seconds": [2.0, 1.0]}
    found = recorded(*peer, *sides, trained("transformers", 0, 3.5, steps=400))
    found["runs"][time_to_quality.FORM] = form
    rows = time_to_quality.time_to_quality(found).splitlines()
    assert "| 3.25 | transformers | 8.0 (8.0 to 8.0) | 2 | 1× | 800 | 8.0e+11 | 1.0 GiB |" in rows
    assert "| 3.17 | modern | 1.0 (1.0 to 1.0) | 1 | 8× | 100 | 1.0e+11 | 1.0 GiB |" in rows
    assert "| 3.17 | faithful | not reached | – | – | – | – | – |" in rows


def test_recorded_runs_are_not_repeated_and_none_starts_that_would_not_fit(tmp_path: Path) -> None:
    words = ["--data", "digits", "--out", str(tmp_path / "runs.json"), "--minutes", "60"]
    options = recorded_runs.parser(None).parse_args(words)
    runs, calls = recorded_runs.RecordedRuns("test", options, 400), []

    def measure(folder: Path) -> dict[str, Any]:
        folder.mkdir(parents=True)
        calls.append(folder.name)
        return trained("faithful", 0, 3.0) | {"wall_seconds": 0.0}

    first = runs.run("faithful, seed 0", 400, measure)
    again = recorded_runs.RecordedRuns("test", options, 400)
    assert again.run("faithful, seed 0", 400, measure) == first
    assert calls == ["faithful-seed-0"]
    assert not any(tmp_path.glob("*/*"))  # the run's folder
    again.found["runs"]["faithful, seed 0"]["wall_seconds"] = 3700.0
    with pytest.raises(SystemExit, match="not started: faithful, seed 1"):
        again.run("faithful, seed 1", 400, measure)
    with pytest.raises(ValueError, match=r"has runs of data digits, not cifar10"):
        recorded_runs.RecordedRuns("test", Namespace(**vars(options) | {"data": "cifar10"}), 400)


@pytest.mark.integration
def test_transformers_trains_as_the_faithful_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setattr(time_to_quality, "native_precision", lambda device: "fp32")
    colors = np.repeat(np.arange(0, 256, 16, dtype=np.uint8)[:, None], 3, 1)
    np.save(tmp_path / "colors.npy", colors)
    settings = (*recorded_runs.TINY, *recorded_runs.length(6, 6), "data.source=digits", "lr=0.003", "seed=1")
    palette = str(tmp_path / "colors.npy")
    peer = time_to_quality.train_peer(settings, palette, compiled=False)
    own = isopix.pretrain("igpt.tiny", *settings, "precision=fp32", palette=palette, out=tmp_path / "run")
    losses = recorded_runs.numbers(own.log)
    assert peer["test_nats"] == pytest.approx(losses["test_nats"], abs=2e-3)
    for step, nats in peer["validation_nats"].items():
        assert nats == pytest.approx(losses["validation_nats"][step], abs=2e-3)
