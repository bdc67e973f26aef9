"""`isopix analyze` and its section of the report; `isopix plan`."""

import base64
import json
import re
from pathlib import Path

import pytest

from isopix.analysis.base import registered_analyses
from tests.smoke.conftest import QUICK, Run, done


def test_analyses_are_saved_printed_and_reported_and_others_are_kept(isopix: Run) -> None:
    done(isopix("pretrain", "igpt.digits", "--out", "run", *QUICK))
    out = done(isopix("analyze", "run", "--limit", "6", "--image", "2", "--position", "3,4"))
    assert "Attention distance in pixels, 6 images; uniform attention: all positions " in out
    saved = json.loads(Path("run/analysis/analyze.json").read_text())["analyses"]
    assert saved.keys() == registered_analyses().keys()
    rollout = saved["attention_rollout"]
    assert (rollout["image_index"], rollout["data"], rollout["split"]) == (2, "digits", "test")
    for name in saved:
        assert {path.suffix for path in Path("run/analysis").glob(f"{name}.*")} == {".png", ".svg"}
    done(isopix("report", "run"))
    page = Path("run/report.html").read_text()
    assert "Attention distance" in page
    encoded = re.findall(r'href="data:text/csv;base64,([^"]+)"', page)
    tables = [base64.b64decode(each).decode() for each in encoded]
    assert len(tables) > len(saved)
    assert not [name for each in tables for name in re.findall(r",(series \d+),", each)]
    assert "PCA of the embedding" in done(isopix("analyze", "run", "--only", "embedding_pca"))
    assert json.loads(Path("run/analysis/analyze.json").read_text())["analyses"].keys() == saved.keys()


def test_an_analysis_that_does_not_apply_is_reported_and_its_old_files_are_deleted(isopix: Run) -> None:
    done(isopix("pretrain", "isotropic.tiny-conv-pix2vec-1", "--data", "digits", "--out", "c", *QUICK))
    Path("c/analysis").mkdir()
    Path("c/analysis/attention_rollout.png").touch()
    out = done(isopix("analyze", "c", "--limit", "3"))
    assert "attention_rollout does not apply: this network has no attention weights" in out
    assert not Path("c/analysis/attention_rollout.png").exists()
    assert Path("c/analysis/inductive_biases.png").exists()


@pytest.mark.usefixtures("known_throughput")
def test_a_plan_estimates_hours_and_cost_of_devices(isopix: Run) -> None:
    out = done(isopix("plan", "igpt.s", "--price", "2.5", "--json"))
    hours = {each["device"]: each for each in json.loads(out)["device_hours"]}
    assert hours["A100"]["hours"] * 312 == pytest.approx(hours["V100"]["hours"] * 125)
    assert hours["A100"]["price"] == 2.5 * hours["A100"]["hours"]
    assert "155     387" in done(isopix("plan", "igpt.s", "--price", "2.5"))


@pytest.mark.usefixtures("known_throughput")
def test_a_plan_for_many_devices_compares_strategies(isopix: Run) -> None:
    words = ("plan", "igpt.tiny", "depth=2", "batch_size=64", "--devices", "64xH100", "2xA100")
    out = done(isopix(*words))
    assert "igpt.tiny on 64xH100, 80 GB each" in out
    assert out.count("ddp *") == 2
    assert "torchrun --nnodes=8 --nproc-per-node=8 " in " ".join(out.split())
    assert "--out RUN --devices 2" in out
    found = json.loads(done(isopix(*words, "--json")))["parallel"]
    assert [(each["count"], each["device"]) for each in found] == [(64, "H100")] * 4 + [(2, "A100")] * 4
    assert all(sum(each["memory"].values()) < each["memory_limit"] for each in found)
