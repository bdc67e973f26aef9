"""The two tiny runs on digits, autoregressive and masked, opened."""

from pathlib import Path

import pytest

from isopix.studio.run import OpenedRun, open_runs
from tests.tiny_runs import pristine

__all__ = ["pristine"]


@pytest.fixture(scope="session")
def opened(pristine: Path) -> dict[str, OpenedRun]:
    runs = open_runs([pristine / "ar", pristine / "bert"], data=None, device="cpu")
    return {run.name: run for run in runs}
