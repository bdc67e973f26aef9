"""`isopix analyze` and its section of the report; `isopix plan`."""

import base64
import json
import re
from pathlib import Path

import pytest

from tests.smoke.conftest import QUICK, Run

FILES = [
    "attention_distance",
    "attention_maps",
    "attention_rollout",
    "embedding_pca",
    "inductive_biases",
    "position_embeddings",
]


@pytest.fixture
def run(isopix: Run) -> Path:
    code, _, err = isopix("pretrain", "igpt.digits", "--out", "run", *QUICK)
    assert code == 0, err
    return Path("run")


def test_analyses_are_saved_printed_and_reported(isopix: Run, run: Path) -> None:
    code, out, err = isopix("analyze", "run", "--limit", "6", "--image", "2", "--position", "3,4")
    assert code == 0, err
    assert "Attention distance in pixels, 6 images; uniform attention: all positions " in out
    assert "does not apply" not in out
    for name in FILES:
        assert {path.suffix for path in (run / "analysis").glob(f"{name}.*")} == {".png", ".svg"}
    saved = json.loads((run / "analysis" / "analyze.json").read_text())["analyses"]["attention_rollout"]
    assert (saved["image_index"], saved["data"], saved["split"]) == (2, "digits", "test")
    assert isopix("report", "run")[0] == 0
    page = (run / "report.html").read_text()
    assert "Attention distance" in page
    assert "isopix analyze run --limit 6" in page
    encoded = re.findall(r'href="data:text/csv;base64,([^"]+)"', page)
    tables = [base64.b64decode(each).decode() for each in encoded]
    assert len(tables) > len(FILES)
    assert not [name for each in tables for name in re.findall(r",(series \d+),", each)]


@pytest.mark.usefixtures("run")
def test_an_analysis_that_does_not_apply_is_reported_and_its_old_files_are_deleted(
    isopix: Run,
) -> None:
    code, _, err = isopix(
        "pretrain", "isotropic.tiny-conv-pix2vec-1", "--data", "digits", "--out", "c", *QUICK
    )
    assert code == 0, err
    Path("c/analysis").mkdir()
    Path("c/analysis/attention_rollout.png").touch()
    code, out, err = isopix("analyze", "c", "--limit", "3")
    assert code == 0, err
    assert "attention_rollout does not apply: this network has no attention weights" in out
    assert not Path("c/analysis/attention_rollout.png").exists()
    assert Path("c/analysis/inductive_biases.png").exists()


@pytest.mark.usefixtures("known_throughput")
def test_a_plan_estimates_hours_and_cost_of_devices(isopix: Run) -> None:
    code, out, err = isopix("plan", "igpt.s", "--price", "2.5", "--json")
    assert code == 0, err
    hours = {each["device"]: each for each in json.loads(out)["device_hours"]}
    a100, v100 = hours["A100"], hours["V100"]
    assert a100["hours"] * 312 == pytest.approx(v100["hours"] * 125)
    assert a100["price"] == 2.5 * a100["hours"]
    code, out, _ = isopix("plan", "igpt.s", "--price", "2.5")
    assert "155     387" in out


@pytest.mark.usefixtures("known_throughput")
def test_a_plan_for_many_devices_compares_strategies(isopix: Run) -> None:
    words = ("plan", "igpt.tiny", "depth=2", "batch_size=64", "--devices", "64xH100", "2xA100")
    code, out, err = isopix(*words)
    assert (code, err) == (0, "")
    assert "igpt.tiny on 64xH100, 80 GB each" in out
    assert out.count("ddp *") == 2
    assert "torchrun --nnodes=8 --nproc-per-node=8 " in " ".join(out.split())
    assert "--out RUN --devices 2" in out
    found = json.loads(isopix(*words, "--json")[1])["parallel"]
    assert [(each["count"], each["device"]) for each in found] == [(64, "H100")] * 4 + [(2, "A100")] * 4
    assert all(sum(each["memory"].values()) < each["memory_limit"] for each in found)
