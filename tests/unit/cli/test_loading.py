"""What verbs share that read a run and images for it."""

from pathlib import Path

import pytest

from isopix.cli.loading import learnt_before
from isopix.data.dataset import Data


@pytest.mark.parametrize(
    ("fold_back", "source", "known"),
    [(True, None, 1), (True, "SELF", 1), (True, "digits", 0), (False, None, 0), (False, "SELF", 0)],
)
def test_validation_images_that_a_run_has_learnt_from_are_named_as_such(
    tmp_path: Path, fold_back: bool, source: str | None, known: int
) -> None:
    own = str(tmp_path.resolve())
    data = Data(source=own, rows=8, cols=8, fold_back=fold_back)
    assert len(learnt_before(data, own if source == "SELF" else source)) == known
