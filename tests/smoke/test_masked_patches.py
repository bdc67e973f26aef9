"""Every command that applies to masked runs, on patches of photos."""

import json
from pathlib import Path

import pytest

from tests.smoke.conftest import Run

SMALL = ["--data", "photos", "data.rows=32", "data.cols=32", "depth=1", "width=16", "steps=2", "batch_size=8"]
SHORT = ["log_every=1", "evaluate_images=6", "num_test_images=6"]
STEM = {"patchformer.tiny": ["head.channels=8", "codec.patch_size=8"], "vit.tiny_hybrid": ["stem.channels=4"]}


@pytest.mark.parametrize("name", ["patchformer.tiny", "vit.tiny", "vit.tiny_axial", "vit.tiny_hybrid"])
def test_a_patch_run_works_with_the_commands_of_masked_runs(isopix: Run, workplace: Path, name: str) -> None:
    code, out, err = isopix("pretrain", name, *SMALL, *SHORT, *STEM.get(name, []), "--out", "run")
    assert (code, err) == (0, "")
    assert f"validation loss {1.3863 if 'former' in name else 6.2383} nats" in out
    tune = ["finetune", "run", "--labels", "50%", "--out", "ft", "steps=2", "batch_size=4", *SHORT]
    for words in (["reconstruct", "run", "-n", "2"], tune, ["report", "run"]):
        code, _, err = isopix(*words)
        assert (code, err) == (0, ""), words
    [saved] = (workplace / "run" / "samples").glob("reconstruct-*.json")
    assert 0 <= json.loads(saved.read_text())["accuracy"] <= 1


def test_patch_regression_works_with_the_same_commands(isopix: Run) -> None:
    target = ["codec=full_patch", "codec.patch_size=8", "head=regression"]
    assert isopix("pretrain", "vit.tiny", *SMALL, *SHORT, *target, "--out", "run")[0] == 0
    tune = ["finetune", "run", "--labels", "50%", "--out", "ft", "steps=2", "batch_size=4", *SHORT]
    for words in (
        ["reconstruct", "run", "-n", "2"],
        tune,
        ["report", "run"],
        ["analyze", "run", "--limit", "4"],
    ):
        code, _, err = isopix(*words)
        assert (code, err) == (0, ""), words
    code, out, err = isopix("verify", "run")
    assert (code, err) == (0, "")
    assert "uniform prediction" not in out
    code, _, err = isopix("sample", "run")
    assert (code, err.count("\n")) == (2, 1)


def test_a_fine_tuned_patchformer_reports_classification_only(isopix: Run, workplace: Path) -> None:
    words = [*SMALL, *SHORT, *STEM["patchformer.tiny"]]
    assert isopix("pretrain", "patchformer.tiny", *words, "--out", "run")[0] == 0
    tune = ["finetune", "run", "--labels", "50%", "steps=2", "batch_size=4", *SHORT, "--out"]
    code, out, err = isopix(*tune, "ft")
    assert (code, err) == (0, "")
    assert "classification loss 0.6931 nats" in out, "two classes"
    assert "next: isopix evaluate ft ; isopix probe ft ; isopix report ft" in " ".join(out.split())
    result = json.loads(isopix(*tune, "again", "--json")[1])
    assert set(result["losses"]) == set(result["accuracies"]) == {"validation", "test"}
    assert (result["baselines"], result["uniform"]) == ({}, None)
    assert isopix("report", "ft")[0] == 0
    page = (workplace / "ft" / "report.html").read_text()
    assert "<dd>L_CLF</dd>" in page
    assert "nats per image" in page
    assert "isopix reconstruct" not in page


@pytest.mark.usefixtures("quick_probes")
def test_a_patch_run_is_probed(isopix: Run) -> None:
    words = [*SMALL, *SHORT, *STEM["patchformer.tiny"]]
    assert isopix("pretrain", "patchformer.tiny", *words, "--out", "run")[0] == 0
    code, _, err = isopix("probe", "run", "--limit", "20")
    assert (code, err) == (0, "")


def test_higher_resolution_is_one_setting(isopix: Run) -> None:
    """ViT section 3.2: positions are interpolate_pos_embed, and all else is as it was."""
    assert isopix("pretrain", "vit.tiny", *SMALL, *SHORT, "--out", "run")[0] == 0
    joint = ["generative_weight=1", "mask_ratio=0.5"]
    for name, words in {"larger": ["data.size=48"], "longer": ["data.rows=48", "data.cols=40"]}.items():
        code, _, err = isopix(
            "finetune", "run", "--out", name, *words, *joint, "steps=2", "batch_size=4", *SHORT
        )
        assert (code, err) == (0, "")
        assert isopix("reconstruct", name, "-n", "2")[0] == 0


@pytest.mark.usefixtures("quick_probes")
@pytest.mark.parametrize(("name", "pool"), [("vit.tiny", "first"), ("vit.tiny_axial", "mean")])
def test_a_probe_reads_what_fine_tuning_reads_and_says_so(
    isopix: Run, workplace: Path, name: str, pool: str
) -> None:
    evaluators = ["knn_images=6", "probe_every=2", "data.holdout=0.3"]
    assert isopix("pretrain", name, *SMALL, *SHORT, *evaluators, "--out", "run")[0] == 0
    [history] = (workplace / "run" / "probes" / "history").glob("*2.json")
    assert json.loads(history.read_text())["pool"] == pool
    code, out, err = isopix("probe", "run")
    assert (code, err) == (0, "")
    assert f"pool {pool}" in " ".join(out.split())
    assert json.loads(isopix("probe", "run", "--json")[1])["config"]["pool"] == pool
    assert json.loads(isopix("probe", "run", "--pool", "max", "--json")[1])["config"]["pool"] == "max"
    code, out, _ = isopix("low-data", "run", "--labels", "2", "--subsets", "2", "--json")
    assert json.loads(out)["pool"] == pool
    assert isopix("report", "run")[0] == 0
    assert f"pool {pool}" in (workplace / "run" / "report.html").read_text()
