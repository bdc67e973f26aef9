"""What verbs share that read a run and images for it."""

from pathlib import Path

import pytest

from isopix.cli.loading import learnt_before
from isopix.data.dataset import DataConfig


@pytest.mark.parametrize(
    ("train_on_validation", "source", "known"),
    [(True, None, 1), (True, "SELF", 1), (True, "digits", 0), (False, None, 0), (False, "SELF", 0)],
)
def test_validation_images_that_a_run_has_learnt_from_are_named_as_such(
    tmp_path: Path, train_on_validation: bool, source: str | None, known: int
) -> None:
    own = str(tmp_path.resolve())
    data = DataConfig(source=own, rows=8, cols=8, train_on_validation=train_on_validation)
    assert len(learnt_before(data, own if source == "SELF" else source)) == known
