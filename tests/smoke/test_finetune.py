"""Fine-tuning and few labels as commands."""

import json
from pathlib import Path

import pytest

from tests.smoke.conftest import QUICK, Run
from tests.smoke.test_bad_input import refused

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


def test_a_fine_tuned_run_serves_every_verb(trained: Run) -> None:
    words = ["finetune", "run", "--limit", "100", "--out", "ft", *TUNE, "generative_weight=0.5"]
    code, out, err = trained(*words)
    assert (code, err) == (0, "")
    assert "igpt.digits from step 2 of run on digits, 4 steps of 8" in out
    assert "test loss" in out
    assert "accuracy" in out
    for verb in (["sample", "-n", "2"], ["probe", "--limit", "60"], ["report"], ["resume"]):
        code, _, err = trained(verb[0], "ft", *verb[1:])
        assert (code, err) == (0, ""), verb


def test_its_numbers_come_as_json(trained: Run) -> None:
    code, out, _ = trained("finetune", "run", "--limit", "100", "--out", "ft", *TUNE, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["finished"]
    assert set(told["accuracy"]) == {"validation", "test"}


def test_from_scratch_by_the_name_of_a_recipe(isopix: Run) -> None:
    code, out, _ = isopix("finetune", "igpt.digits", "--limit", "60", "--out", "scratch", *QUICK, *TUNE)
    assert code == 0
    assert "igpt.digits from scratch on digits" in out


def test_validation_is_folded_back_and_the_run_serves_every_verb(trained: Run) -> None:
    words = [*TUNE, "steps=40", "evaluate_every=5", "generative_weight=0.1", "lr=0.05"]
    words = ["finetune", "run", "--limit", "100", "--out", "ft", "--fold-back", *words]
    code, out, err = trained(*words)
    assert (code, err) == (0, "")
    assert "selected on validation" in out
    assert out.count("test loss") == 1
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
    told = json.loads(trained(*words, "--json")[1])
    assert (told["run"], set(told["accuracy"])) == ("ft", {"test"})
    known = "validation was folded back into what the run learnt from"
    assert known in Path("ft/report.html").read_text()


def test_a_fold_back_that_waits_says_how_to_go_on(trained: Run) -> None:
    words = ["finetune", "run", "--limit", "100", "--out", "ft", "--fold-back", *TUNE]
    nothing = ["generative_weight=0", "lr=1e-60"]
    assert trained(*words, *nothing)[0] == 1  # no step is better than none
    for verb in ("resume", "probe", "report", "evaluate"):
        code, out, err = trained(verb, "ft")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "has no run of its own yet" in err
        assert "isopix finetune run --limit 100 --out ft --fold-back" in err


def test_what_a_fine_tuned_run_answers_is_judged(isopix: Run) -> None:
    assert isopix("finetune", "igpt.digits_bert", "--limit", "60", "--out", "ft", *QUICK, *TUNE)[0] == 0
    code, out, err = isopix("evaluate", "ft", "--masks", "3")
    assert (code, err) == (0, "")
    assert "modal vote of 3 masks" in out
    assert "among the five likeliest" in out
    told = json.loads(isopix("evaluate", "ft", "--masks", "3", "--limit", "40", "--json")[1])
    kept = json.loads(Path(told.pop("record")).read_text())
    assert {name: kept[name] for name in told} == told
    assert (told["images"], told["masks"], len(told["per_class"]), len(told["confusion"])) == (40, 3, 10, 10)
    assert len(list(Path("ft/evaluations").glob("evaluate-*-digits-*.json"))) == 2
    assert isopix("report", "ft")[0] == 0
    assert "mean probability" in Path("ft/report.html").read_text()
    refused(isopix("evaluate", "ft", "--masks", "-1"), "masks is -1; allowed: 0 or more")
    message = "data set 'photos' has other classes than the run: it lacks 0, 1, 2, 3, 4 ... and the run "
    code, _, err = isopix("evaluate", "ft", "--data", "photos")
    assert code == 2
    assert f"{message}does not know cats, dogs" in err


def test_a_run_without_a_classifier_is_not_evaluated(trained: Run) -> None:
    message = (
        "run run is not fine-tuned and has no class head; to fine-tune it: isopix finetune run --out OUT"
    )
    refused(trained("evaluate", "run"), message)


def test_what_is_neither_run_nor_recipe_is_refused(isopix: Run) -> None:
    code, _, err = isopix("finetune", "igpt.digitz", "--out", "ft")
    assert code == 2
    assert "unknown recipe 'igpt.digitz'; did you mean 'igpt.digits'?" in err


def test_images_without_labels_are_refused(trained: Run, workplace: Path) -> None:
    for path in (workplace / "photos").glob("*/*.png"):
        path.rename(workplace / "photos" / f"{path.parent.name}-{path.name}")
    for name in ("cats", "dogs"):
        (workplace / "photos" / name).rmdir()
    message = (
        "finetune needs labels; data set 'photos' has none in train, validation, test: in a folder, put the "
        "images of each class in a sub-folder; in an .npz file, give y_train and y_test"
    )
    refused(trained("finetune", "run", "--data", "photos", "--out", "ft", *TUNE), message)
    assert not Path("ft").exists()


def test_lowdata_as_a_table_and_as_json(trained: Run) -> None:
    words = ["lowdata", "run", "--labels", "1", "3", "--subsets", "2", "--limit", "60"]
    code, out, err = trained(*words)
    assert (code, err) == (0, "")
    assert "raw pixels" in out
    assert "±" in out
    told = json.loads(trained(*words, "--json")[1])
    rows = told["results"]["trained"]
    assert [(row["labels"], row["images"], len(row["errors"])) for row in rows] == [(1, 10, 2), (3, 30, 2)]
    assert json.loads(Path(told["record"]).read_text())["results"] == told["results"]


def test_lowdata_fine_tunes_beside_and_goes_on(trained: Run) -> None:
    words = ["lowdata", "run", "--labels", "1", "--subsets", "1", "--limit", "100", "--finetune", "2"]
    code, out, err = trained(*words, "data.augment=none", "batch_size=4", "num_test_images=20")
    assert (code, err) == (0, "")
    assert "fine-tuned" in out
    [folder] = Path("run/lowdata").glob("labels-1-subset-0-*")
    assert (folder / "best/manifest.json").is_file()


def test_lowdata_tells_fine_tuning_that_is_judged_on_fewer_images_and_keeps_its_settings(
    trained: Run,
) -> None:
    words = ["lowdata", "run", "--labels", "1", "--subsets", "1", "--limit", "100", "--finetune", "1"]
    code, out, _ = trained(*words, "batch_size=4", "data.augment=none", "num_test_images=20")
    assert code == 0
    assert "fine-tuned, 20 test images" in " ".join(out.split())
    told = json.loads(trained(*words, "batch_size=4", "data.augment=none", "--json")[1])
    assert told["results"]["fine-tuned"][0]["tested"] == 100
    assert (told["finetune"], told["settings"]) == (1, ["batch_size=4", "data.augment=none"])


def test_lowdata_refuses_settings_that_nothing_would_read(trained: Run) -> None:
    message = "'batch_size=4' is a setting of fine-tuning; give --finetune STEPS as well"
    refused(trained("lowdata", "run", "batch_size=4", "--labels", "1"), message)
