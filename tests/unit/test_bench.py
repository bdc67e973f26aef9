"""`bench/run.py` at the smallest sizes: its file, its table, and what it refuses to time."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from run import main
from speed import palettes

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
