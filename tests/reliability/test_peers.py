"""The benchmark that does the same faults to isopix and to other trainers, in short."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    out = tmp_path_factory.mktemp("peers")
    command = [sys.executable, str(ROOT / "bench/reliability.py"), "--quick", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)["trainers"]


@pytest.mark.slow
def test_isopix_loses_nothing_and_names_every_damaged_checkpoint(found: dict[str, Any]) -> None:
    isopix = found["isopix"]
    kills, stops = isopix["kills"], isopix["stops"]
    for lost in ("all_progress_lost", "ended_until_deleted_by_hand", "steps_lost_beyond_interval"):
        assert kills[lost] == 0
    assert kills["finished_equal_to_uninterrupted"] == kills["finished_runs"] > 0
    for fault in ("bit_flips_anywhere", "bit_flips_each_file", "truncations"):
        assert isopix[fault]["noticed_and_went_on"] == isopix[fault]["n"]
    full = isopix["full_disk"]
    assert full["full: ended_with_a_message"] == full["resumed: same_weights"] == full["n"]
    assert full["left_partial_files"] == 0
    assert stops["equal_to_uninterrupted"] == stops["n"]


@pytest.mark.slow
def test_the_benchmark_sees_what_goes_wrong(found: dict[str, Any]) -> None:
    """`torch.load` does not look for changed bits, and a torn file cannot be loaded."""
    plain = found["torch_save"]
    assert plain["bit_flips_anywhere"]["other_weights"] > 0
    assert plain["truncations"]["ended_with_a_traceback"] == plain["truncations"]["n"]
    assert plain["full_disk"]["resumed: all_progress_lost"] == plain["full_disk"]["n"]
