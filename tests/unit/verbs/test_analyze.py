"""`isopix analyze`: its record is read again, and a model leaves no file."""

from typing import Any

import pytest

import isopix
from isopix.analysis.results import AnalysisResult
from tests.tiny_runs import Copy

CPU: dict[str, Any] = {"device": "cpu"}


def test_the_record_of_an_analysis_is_read_again(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    found = isopix.analyze(run, limit=4, position=[(2, 3)], **CPU)
    assert AnalysisResult.read(found.path) == found
    assert found.analyses["attention_distance"]["images"] == 4
    assert found.not_applicable == {}
    assert isopix.analyze(isopix.load(run, **CPU), limit=4, only=["attention_distance"]).path is None
    with pytest.raises(ValueError, match="position 9,9 does not exist"):
        isopix.analyze(run, position=["9,9"], **CPU)
