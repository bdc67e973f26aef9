"""Every command that applies to masked runs, on patches of photos."""

import json
from pathlib import Path

import pytest

from tests.smoke.conftest import Run, done

SMALL = ["--data", "photos", "data.rows=32", "data.cols=32", "depth=1", "width=16", "steps=2", "batch_size=8"]
SMALL += ["log_every=1", "evaluate_images=6", "num_test_images=6", "--out", "run"]
TUNE = ["finetune", "run", "--labels", "50%", "--out", "ft", "steps=2", "batch_size=4", "log_every=1"]
STEM = {"patchformer.tiny": ["head.channels=8", "codec.patch_size=8"], "vit.tiny_hybrid": ["stem.channels=4"]}


@pytest.mark.parametrize("name", ["patchformer.tiny", "vit.tiny_hybrid"])
def test_a_patch_run_works_with_the_commands_of_masked_runs(isopix: Run, name: str) -> None:
    out = done(isopix("pretrain", name, *SMALL, *STEM.get(name, [])))
    assert f"validation loss {1.3863 if 'former' in name else 6.2383} nats" in out
    out = done(isopix(*TUNE))
    for words in (["reconstruct", "run", "-n", "2"], ["report", "run", "ft"]):
        done(isopix(*words))
    if name == "patchformer.tiny":
        assert "classification loss 0.6931 nats" in out, "two classes"
        done(isopix("report", "ft"))
        page = Path("ft/report.html").read_text()
        assert "<dd>L_CLF</dd>" in page
        assert "nats per image" in page
        assert "isopix reconstruct" not in page


@pytest.mark.usefixtures("quick_probes")
def test_a_probe_reads_what_fine_tuning_reads_and_says_so(isopix: Run) -> None:
    pool = "first"
    done(isopix("pretrain", "vit.tiny", *SMALL, "knn_images=6", "probe_every=2", "data.holdout=0.3"))
    [history] = Path("run/probes/history").glob("*2.json")
    assert json.loads(history.read_text())["pool"] == pool
    assert f"pool {pool}" in " ".join(done(isopix("probe", "run")).split())
    assert json.loads(isopix("probe", "run", "--pool", "max", "--json")[1])["config"]["pool"] == "max"
    few = isopix("probe", "run", "--labels", "2", "--subsets", "2", "--json")
    assert json.loads(few[1])["pool"] == pool
    done(isopix("report", "run"))
    assert f"pool {pool}" in Path("run/report.html").read_text()
