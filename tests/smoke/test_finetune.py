"""`isopix finetune`, `evaluate` and `low-data`."""

import json
import re
from pathlib import Path

import pytest

from tests.smoke.conftest import QUICK, Run, refused

pytestmark = pytest.mark.usefixtures("quick_probes", "quick_figures")

TUNE = [
    "steps=4",
    "batch_size=8",
    "evaluate_every=2",
    "log_every=1",
    "data.augment=none",
    "num_test_images=20",
]


@pytest.fixture
def trained(isopix: Run) -> Run:
    assert isopix("pretrain", "igpt.digits", *QUICK, "--out", "run")[0] == 0
    return isopix


def test_a_fine_tuned_run_works_with_every_command(trained: Run) -> None:
    words = ["finetune", "run", "--limit", "100", "--out", "ft", *TUNE, "generative_weight=0.5"]
    code, out, err = trained(*words)
    assert (code, err) == (0, "")
    assert "igpt.digits from step 2 of run on digits, 4 steps, batch size 8" in out
    assert "test total loss" in out
    assert "(20 of 180 images)" in out
    assert "accuracy" in out
    for words in (["sample", "-n", "2"], ["probe", "--limit", "60"], ["report"], ["resume"]):
        code, _, err = trained(words[0], "ft", *words[1:])
        assert (code, err) == (0, ""), words


def test_finetune_with_json(trained: Run) -> None:
    code, out, _ = trained("finetune", "run", "--limit", "100", "--out", "ft", *TUNE, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["finished"]
    assert set(result["accuracies"]) == {"validation", "test"}
    assert result["measurement"]["images"] == 20
    assert "majority class" in result["measurement"]["baselines"]


def test_a_recipe_name_trains_from_scratch(isopix: Run) -> None:
    code, _, err = isopix("finetune", "igpt.digits", "--limit", "60", "--out", "scratch", *QUICK, *TUNE)
    assert code == 0
    given = Path("runs") / "igpt.digits"
    assert f"recipe igpt.digits is trained from scratch; to fine-tune the model, give {given}" in err


def test_a_run_refitted_on_validation_works_with_every_command(trained: Run) -> None:
    words = [*TUNE, "steps=40", "evaluate_every=5", "generative_weight=0.1", "lr=0.05"]
    words = ["finetune", "run", "--limit", "100", "--out", "ft", "--refit-on-validation", *words]
    code, out, err = trained(*words)
    assert (code, err) == (0, "")
    assert re.search(r"step \d+ selected on validation", out)
    assert out.count("test total loss") == 1
    log = Path("ft/log.jsonl").read_text()
    for again in (
        words,
        ["resume", "ft"],
        ["probe", "ft", "--limit", "60", "--method", "ridge"],
        ["report", "ft"],
    ):
        code, _, err = trained(*again)
        assert (code, err) == (0, ""), again
    assert Path("ft/log.jsonl").read_text() == log
    result = json.loads(trained(*words, "--json")[1])
    assert (result["path"], set(result["accuracies"])) == ("ft", {"test"})
    known = "the run was refitted on training and validation images"
    assert known in Path("ft/report.html").read_text()


def test_an_unfinished_refit_prints_the_resume_command(trained: Run) -> None:
    words = ["finetune", "run", "--limit", "100", "--out", "ft", "--refit-on-validation", *TUNE]
    nothing = ["generative_weight=0", "lr=1e-60"]
    assert trained(*words, *nothing)[0] == 1  # no step is better than none
    for name in ("resume", "probe", "report", "evaluate"):
        code, out, err = trained(name, "ft")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "has no checkpoints yet" in err
        assert "isopix finetune run --limit 100 --out ft --refit-on-validation" in err


def test_a_fine_tuned_run_is_evaluated(isopix: Run) -> None:
    assert isopix("finetune", "igpt.digits_bert", "--limit", "60", "--out", "ft", *QUICK, *TUNE)[0] == 0
    code, out, err = isopix("evaluate", "ft", "--mask-ensemble", "3")
    assert (code, err) == (0, "")
    assert "majority vote of 3 masks" in out
    assert "top-5 accuracy" in out
    result = json.loads(isopix("evaluate", "ft", "--mask-ensemble", "3", "--limit", "40", "--json")[1])
    saved = json.loads(Path(result.pop("path")).read_text())
    assert {name: saved[name] for name in result} == result
    assert (result["metrics"]["num_images"], result["mask_ensemble"]) == (40, 3)
    assert len(result["metrics"]["per_class_accuracy"]) == len(result["metrics"]["confusion_matrix"]) == 10
    assert len(list(Path("ft/evaluations").glob("evaluate-*-digits-*.json"))) == 2
    assert isopix("report", "ft")[0] == 0
    assert "averaged probabilities" in Path("ft/report.html").read_text()
    refused(isopix("evaluate", "ft", "--mask-ensemble", "-1"), "--mask-ensemble is -1; allowed: 0 or more")
    code, _, err = isopix("evaluate", "ft", "--data", "photos")
    assert code == 2
    assert "dataset 'photos' has the classes cats, dogs; those of the run are 0, 1, 2, 3, 4 ..." in err


def test_low_data_as_a_table_and_as_json(trained: Run) -> None:
    words = ["low-data", "run", "--labels", "1", "3", "--subsets", "2", "--limit", "60"]
    code, out, err = trained(*words)
    assert (code, err) == (0, "")
    assert "raw pixels" in out
    assert "±" in out
    result = json.loads(trained(*words, "--json")[1])
    rows = result["results"]["trained"]
    counts = [(row["labels_per_class"], row["num_train_images"], len(row["errors"])) for row in rows]
    assert counts == [(1, 10, 2), (3, 30, 2)]
    assert json.loads(Path(result["path"]).read_text())["results"] == result["results"]


def test_low_data_with_fine_tuning(trained: Run) -> None:
    words = ["low-data", "run", "--labels", "1", "--subsets", "1", "--limit", "100", "--finetune-steps", "2"]
    code, out, err = trained(*words, "data.augment=none", "batch_size=4", "num_test_images=20")
    assert (code, err) == (0, "")
    assert "fine-tuned, 20 test images" in " ".join(out.split())
    [folder] = Path("run/low-data").glob("finetune-*/labels-1-subset-0")
    assert (folder / "best/manifest.json").is_file()
