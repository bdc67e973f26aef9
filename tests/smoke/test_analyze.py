"""`isopix analyze` and its section of the report."""

import base64
import json
import re
from pathlib import Path

from isopix.analysis.base import registered_analyses
from tests.smoke.conftest import QUICK, Run, done


def test_analyses_are_saved_and_reported_and_others_are_kept(isopix: Run) -> None:
    done(isopix("pretrain", "igpt.digits", "--out", "run", *QUICK))
    done(isopix("analyze", "run", "--limit", "6", "--image", "2", "--position", "3,4"))
    saved = json.loads(Path("run/analysis/analyze.json").read_text())["analyses"]
    assert saved.keys() == registered_analyses().keys()
    for name in saved:
        assert {path.suffix for path in Path("run/analysis").glob(f"{name}.*")} == {".png", ".svg"}
    done(isopix("report", "run"))
    page = Path("run/report.html").read_text()
    encoded = re.findall(r'href="data:application/json;base64,([^"]+)"', page)
    numbers = [base64.b64decode(each).decode() for each in encoded]
    assert len(numbers) > len(saved)
    assert not [name for each in numbers for name in re.findall(r'"(series \d+)"', each)]
    assert "PCA of the input embedding" in done(isopix("analyze", "run", "--only", "embedding_pca"))
    assert json.loads(Path("run/analysis/analyze.json").read_text())["analyses"].keys() == saved.keys()


def test_an_analysis_that_does_not_apply_is_reported_and_its_old_files_are_deleted(isopix: Run) -> None:
    done(isopix("pretrain", "isotropic.tiny-conv-pix2vec-1", "--data", "digits", "--out", "c", *QUICK))
    Path("c/analysis").mkdir()
    Path("c/analysis/attention_rollout.png").touch()
    out = done(isopix("analyze", "c", "--limit", "3"))
    assert "attention_rollout does not apply: this network has no attention weights" in out
    assert not Path("c/analysis/attention_rollout.png").exists()
    assert Path("c/analysis/inductive_biases.png").exists()
