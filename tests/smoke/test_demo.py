"""A small demo: one report about all runs; the next demo gets its own folder; an interrupted one resumes."""

import json
from pathlib import Path

import pytest

from isopix.verbs.demo import demo_folder
from tests.smoke.conftest import QUICK, Run

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_probes", "quick_figures")]
SMALL = [*QUICK, "data.limit=60"]


@pytest.fixture(autouse=True)
def fewer_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isopix.verbs.demo.FEW_LABELS", [1, 2, 100])  # no class has 100


def test_a_demo_writes_one_report_and_resumes(isopix: Run) -> None:
    code, out, err = isopix("demo", *SMALL)
    assert (code, err) == (0, "")
    assert "demo in runs/demo/1" in out
    assert "raw pixels" in out
    assert "random subsets" in out
    page = Path("runs/demo/1/report.html").read_text()
    assert "Few labels" in page
    pictures = {"ar": ["samples", "completions"], "bert": ["reconstructions"], "conv": ["reconstructions"]}
    for run, kinds in pictures.items():
        for kind in kinds:
            assert list(Path(f"runs/demo/1/{run}/samples").glob(f"{kind}-*.png"))
    assert page.count("data:image/png;base64,") >= 4
    assert "the best baseline, with 95\u00a0% interval" in page
    assert "groups of test images" in page
    assert demo_folder(Path("runs/demo")) == Path("runs/demo/2")
    Path("runs/demo/1/report.html").unlink()
    code, out, err = isopix("demo", *SMALL, "--json")
    assert code == 0
    assert "demo in runs/demo/1" in err
    assert "igpt.translated_digits_bert" in err
    assert [row["name"] for row in json.loads(out)["summary"]][:2] == ["ar", "untrained"]
    assert [path.name for path in Path("runs/demo").iterdir()] == ["1"]
