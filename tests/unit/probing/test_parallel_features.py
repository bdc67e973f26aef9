"""Two processes give the report of one, bit for bit, and read nothing that is in the cache."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isopix.probing import features
from tests.unit.probing import parallel_cases

pytestmark = pytest.mark.integration

Reports = dict[str, Any]
WORDS = ("-m", "torch.distributed.run", "--nproc-per-node=2", "-m", parallel_cases.__name__)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> list[Reports]:
    """The reports of both ranks, and the images that they read."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {**os.environ, "ISOPIX_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *WORDS, str(folder)], env=environment, check=True, timeout=240)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_give_the_reports_of_one(
    of_two: list[Reports], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path))
    monkeypatch.setattr(features, "CPU_POSITIONS", features.CPU_POSITIONS)  # is restored
    for name, found, _ in parallel_cases.reports():
        expected = json.loads(json.dumps(found))
        for rank, reports in enumerate(of_two):
            assert reports[name][0] == expected, (name, rank)


def test_each_process_reads_its_own_batches_and_none_that_is_in_the_cache(of_two: list[Reports]) -> None:
    read = [{name: calls for name, (_, calls) in reports.items()} for reports in of_two]
    names = list(parallel_cases.CASES)
    assert read[0] == dict(zip(names, ([35] * 6, [35] * 3, [60] * 6, [35] * 8, [35] * 6, []), strict=True))
    assert read[1] == dict(zip(names, ([25] * 6, [25] * 3, [0] * 6, [25] * 8, [25] * 6, []), strict=True))
