"""Loading runs and images."""

from pathlib import Path

import pytest

from isopix.cli.loading import leakage_warning
from isopix.data.dataset import DataConfig


@pytest.mark.parametrize(
    ("train_on_validation", "source", "count"),
    [(True, None, 1), (True, "SELF", 1), (True, "digits", 0), (False, None, 0), (False, "SELF", 0)],
)
def test_a_run_refitted_on_validation_images_gives_a_leakage_warning(
    tmp_path: Path, train_on_validation: bool, source: str | None, count: int
) -> None:
    own = str(tmp_path.resolve())
    data = DataConfig(source=own, rows=8, cols=8, train_on_validation=train_on_validation)
    assert len(leakage_warning(data, own if source == "SELF" else source)) == count
