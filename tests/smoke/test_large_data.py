"""Memory stays bounded as data grows: the measurement of bench/large_data.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("count", [500, 2_000_000])
def test_encoded_images_are_prepared_and_trained_on_in_two_gigabytes(count: int, tmp_path: Path) -> None:
    words = [sys.executable, "large_data.py", "--counts", str(count), "--store", "encoded"]
    kept = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}  # bf16 is slow
    done = subprocess.run(
        [*words, "--folder", tmp_path],
        cwd=BENCH,
        env={**kept, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["conditions"]
    assert found["images"] == count
    assert list(found["stages"]) == ["import", "read source", "prepare", "open again", "train"]
    assert 0.2e9 < found["stages"]["train"]["peak_bytes"] < 2e9
