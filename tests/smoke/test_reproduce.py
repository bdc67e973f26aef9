"""Protocols from the command line, at a micro scale."""

import json
from pathlib import Path

import pytest

from isopix.studies.papers.setup import Setup
from tests.smoke.conftest import Run

MICRO = ["depth=1", "width=16", "steps=4", "batch_size=8", "evaluate_images=20", "num_test_images=20"]
ALL = (
    *("igpt.table1", "igpt.table2", "igpt.table3", "igpt.imagenet-finetuning", "igpt.table4"),
    *("igpt.figure2", "igpt.figure3", "igpt.figure4", "patchformer.table1", "patchformer.table2"),
    *("vit.finetuning", "vit.few-shot"),
)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine-tune for four steps; the last weights count, as after so few none may be better than the first."""
    settings = Setup.finetune_settings
    words = ("steps=4", "evaluate_every=2", "batch_size=8", "evaluate_images=20", "finetune.patience=null")
    monkeypatch.setattr(Setup, "finetune_settings", lambda *given: (*settings(*given), *words))


@pytest.mark.usefixtures("quick_probes")
def test_a_figure_at_micro_scale(isopix: Run, workplace: Path) -> None:
    words = ["reproduce", "igpt.figure2", "--data", "digits", "--out", "out", "data.size=8", *MICRO]
    code, out, err = isopix(*words)
    assert code == 0, err
    assert "not a reproduction of the published numbers" in out
    table = json.loads((workplace / "out/igpt.figure2/report.json").read_text())
    (row,) = [each for each in table["rows"] if each["measured"]]
    record = json.loads((workplace / "out" / next(iter(table["trials"].values()))["record"]).read_text())
    assert record["name"].startswith("igpt.digits")
    probe = next(each for name, each in table["trials"].items() if name.startswith("probe"))
    numbers = json.loads((workplace / "out" / probe["record"]).read_text())["network"]
    accuracies = [100 * layer["test_accuracy"] for layer in numbers["layers"]]
    assert row["cells"]["last layer"]["value"] == accuracies[-1]
    assert row["cells"]["best layer"]["value"] == accuracies[numbers["best_index"]]
    page = (workplace / "out/igpt.figure2/report.html").read_text()
    assert "<svg" in page
    assert "digits" in page
    assert (workplace / "out/igpt.figure2/figures/figure.png").is_file()
    before = sorted((workplace / "out").rglob("*.json"))
    assert isopix(*words)[0] == 0
    assert sorted((workplace / "out").rglob("*.json")) == before


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("quick_probes", "short")
@pytest.mark.parametrize("name", ALL)
def test_every_protocol_runs(isopix: Run, workplace: Path, name: str) -> None:
    code, out, err = isopix("reproduce", name, "--out", "out", *MICRO)
    assert code == 0, f"{out}\n{err}"
    table = json.loads((workplace / "out" / name / "report.json").read_text())
    for row in table["rows"]:
        if row["measured"] and name != "igpt.figure3":
            assert set(row["cells"]) <= set(table["units"]), row
