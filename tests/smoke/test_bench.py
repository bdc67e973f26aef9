"""`isopix bench` at the smallest sizes: its table, its file, and its end by an error and by Ctrl-C."""

import json
from pathlib import Path

import pytest

from isopix.benchmarks import palettes, probe_sweep
from isopix.benchmarks.training import PEAK_MEMORY
from isopix.cli import bench
from tests.smoke.conftest import Run

TINY_RUN = ("bench", "--tiny", "--device", "cpu")
MACHINE = {
    "benchmark",
    "isopix",
    "device",
    "threads",
    "torch",
    "pillow",
    "python",
    "platform",
    "precision",
    "size",
    "command",
}
CELL = {"name", "work", "peer", "state", "reason", "seconds", "sizes", "checked", "item", "alternatives"}
CELL |= {"errors", "values", "comparisons"}
COMPARISON = {"task", "peer", "isopix_alternative", "speedup", "n", "isopix_seconds", "peer_seconds"}


def test_the_table_and_the_file_have_every_comparison(isopix: Run) -> None:
    words = ("--only", "correct", "probe", "palette.fit", "--repeats", "2", "--out", "speed.json")
    code, out, err = isopix(*TINY_RUN, *words)
    assert code == 0, err
    found = json.loads(Path("speed.json").read_text())
    assert set(found) == MACHINE | {"benchmarks"}
    assert found["command"] == f"isopix {' '.join([*TINY_RUN, *words])}"
    names = ["correctness", "palette.fit", "probe.sweep"]
    assert [each["name"] for each in found["benchmarks"]] == names
    for record in found["benchmarks"]:
        assert set(record) == CELL
        assert record["checked"]
        assert f"{record['name']}: {record['checked']}" in out
        for comparison in record["comparisons"]:
            assert set(comparison) == COMPARISON
            assert set(comparison["isopix_seconds"]) == {"n", "median", "min", "max", "first_call"}
            assert comparison["n"] == 2
            assert bench.format_ratio(comparison["speedup"]) in out
    assert "palette fit" in out
    assert "wrote speed.json" in out


def test_json_is_all_that_is_printed(isopix: Run) -> None:
    code, out, _ = isopix(*TINY_RUN, "--only", "probe", "--json")
    assert code == 0
    assert json.loads(out)["benchmarks"][0]["state"] == "measured"


def test_a_failed_check_is_named_and_the_others_are_measured(
    isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(palettes, "EQUAL_ERROR", -1.0)
    code, out, err = isopix(*TINY_RUN, "--only", "palette.fit", "probe", "--out", "speed.json")
    assert code == 1
    assert "palette.fit: failed, NumericsError: the error of our palette is" in out
    assert err.endswith("isopix: failed: palette.fit\n")
    states = [each["state"] for each in json.loads(Path("speed.json").read_text())["benchmarks"]]
    assert states == ["failed", "measured"]


def test_ctrl_c_keeps_what_is_done(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe_sweep, "fit_isopix", interrupted)
    code, out, err = isopix(*TINY_RUN, "--only", "palette.fit", "probe", "--out", "speed.json")
    assert code == 130
    assert err.endswith("isopix: interrupted\n")
    assert "wrote speed.json" in out
    [record] = json.loads(Path("speed.json").read_text())["benchmarks"]
    assert (record["name"], record["state"]) == ("palette.fit", "measured")


def test_wrong_words_are_answered_with_what_is_allowed(isopix: Run) -> None:
    code, _, err = isopix("bench", "--only", "nothing")
    assert code == 2
    assert "no benchmark's name starts with 'nothing'; benchmarks: correctness, training.igpt-tiny" in err
    code, _, err = isopix("bench", "--out", "missing/speed.json")
    assert code == 2
    assert "missing is not a folder" in err


def test_the_minutes_are_a_number_above_zero(isopix: Run) -> None:
    for minutes in ("0", "-1", "nan", "inf"):
        code, _, err = isopix("bench", "--minutes", minutes)
        assert code == 2
        assert err == f"isopix: --minutes is {float(minutes)}; allowed: a finite number above 0\n"


def test_what_is_skipped_for_the_same_reason_is_one_line(isopix: Run) -> None:
    code, out, _ = isopix(*TINY_RUN, "--only", "probe", "training.igpt-m", "training.igpt-l")
    assert code == 0
    assert "training.igpt-m, training.igpt-l: skipped, it has no tiny size\n" in out


def test_peak_memory_is_a_table_in_mebibytes(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"name": "training.igpt-tiny", "state": "measured", "checked": "loss", "errors": {}}
    values = {f"{PEAK_MEMORY}isopix, compiled": 3 * 2**20, f"{PEAK_MEMORY}isopix, eager": None}
    machine = {"isopix": "1.0", "device": "cpu", "threads": 2, "torch": "2.13", "size": "cpu"}
    records = [{**record, "comparisons": [], "item": "image", "values": values}]
    bench._print_benchmarks({**machine, "benchmarks": records}, None)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["training.igpt-tiny", "isopix,", "compiled", "3"] in lines
    assert not any("eager" in line for line in lines)


def test_times_have_three_digits_and_a_unit() -> None:
    times = [0.0, 1.234e-7, 2.5e-5, 0.0123456, 1.5, 75.0]
    shown = [bench.format_seconds(each) for each in times]
    assert shown == ["0 µs", "0.123 µs", "25 µs", "12.3 ms", "1.5 s", "75 s"]


def test_a_folder_as_file_and_benchmarks_that_are_all_skipped_are_errors(isopix: Run) -> None:
    code, _, err = isopix(*TINY_RUN, "--only", "probe", "--out", ".")
    assert (code, err) == (2, "isopix: --out .: . is a folder; give a file\n")
    code, out, err = isopix(*TINY_RUN, "--only", "training.igpt-s")
    assert code == 1
    assert "training.igpt-s: skipped, it has no tiny size" in out
    assert err.endswith("all benchmarks were skipped\n")
