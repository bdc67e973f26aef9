"""Fine-tuned runs on the page: their accuracy with its interval, and no loss that is a sum of two."""

import json
from pathlib import Path

import pytest
import torch
from scipy.stats import binomtest

from isopix.core.config import to_dict
from isopix.finetune.config import FineTuneConfig
from isopix.finetune.metrics import judge
from isopix.recipes import tiny
from isopix.report import page
from isopix.report.finetuning_section import wilson
from isopix.report.summary import summary
from isopix.storage import checkpoint, log
from isopix.storage.atomic import write_json
from isopix.storage.run_folder import RunFolder
from tests.unit.report.cases import bare, records

JOINT = FineTuneConfig(generative_weight=0.5, layer=2)


def fine_tuned(path: Path, *, tested: bool = True, classify: FineTuneConfig = JOINT) -> RunFolder:
    run = bare(
        path,
        tiny.digits().updated(
            finetune=classify,
        ),
    )
    pretrained = {"run": "runs/pre", "step": 400}
    write_json(run.environment, {"pretrained": pretrained, "majority": 0.125, "command": ["isopix"]})
    written = log.Log(run.log)
    accuracies = iter([0.1, 0.625, 0.6])
    for each in records():
        if each["kind"] != "evaluation" or each["split"] == "validation" or tested:
            written.write(each | ({"accuracy": next(accuracies)} if each["kind"] == "evaluation" else {}))
    written.close()
    return run


def test_the_interval_is_wilsons() -> None:
    for right, count in ((0, 10), (7, 10), (180, 180), (412, 1000)):
        theirs = binomtest(right, count).proportion_ci(method="wilson")
        assert wilson(right / count, count) == pytest.approx((theirs.low, theirs.high), abs=1e-4)


def test_the_page_tells_the_accuracy_and_where_it_started(tmp_path: Path) -> None:
    text = page.build([fine_tuned(tmp_path / "ft")])
    assert "60.0\u00a0% of 64 test images are classified rightly" in text
    assert (
        "Fine-tuned from step 400 of runs/pre; loss 0.5 · L_GEN + L_CLF, classes read from layer 2." in text
    )
    assert "The ring is the step that validation chose, 100." in text
    assert "tell the class of 60.0\u00a0% of test images" in text
    assert "one class 12.5 %" in text
    assert ">training</text>" not in text, "the joint loss is no loss of a pixel"


@pytest.mark.parametrize("classify", [FineTuneConfig(patience=None), FineTuneConfig(generative_weight="inf")])
def test_a_run_that_chose_nothing_shows_no_choice(tmp_path: Path, classify: FineTuneConfig) -> None:
    text = page.build([fine_tuned(tmp_path / "ft", classify=classify)])
    assert "The ring is the step" not in text
    assert "The best validation accuracy" not in text
    assert "by the weights of the last step, as nothing was chosen" in text
    assert "that validation chose" not in text.partition(">Classes<")[2].partition("</section>")[0]


def test_where_codes_are_left_behind_the_page_tells_of_classes_alone(tmp_path: Path) -> None:
    """Whatever an earlier version logged of codes."""
    alone = FineTuneConfig(generative_weight=0.0)
    run = fine_tuned(tmp_path / "ft", classify=alone)
    lines = [{**each, "class_nats": 1.25} if "split" in each else each for each in log.read(run.log)]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    write_json(run.environment, {"trained_parameters": 12345})
    state = {"state": {"step": 100, "classes": ["a", "b", "c"]}}
    checkpoint.save(checkpoint.step_folder(run.checkpoints, 100), {"model": {"x": torch.zeros(4)}}, state)
    text = page.build([run])
    assert "1.250 nats, which is 1.803 bits, is the mean loss of a label over 64 test images" in text
    assert "Before its first step the network gives all 3 values of a label the same chance" in text
    for said in ("nats a label", ">training</text>", "<dt>parameters trained</dt><dd>12,345</dd>"):
        assert said in text
    assert "<dt>objective</dt><dd>classes</dd>" in text
    for left in ("1.800", "1.80 nats", "a pixel", "isopix sample", "isopix complete", "ln 17"):
        assert left not in text
    rows = summary(page.read([run]))
    assert [row.name for row in rows] == ["ft", "fine-tuned"]
    assert {row.nats for row in rows} == {None}


def test_before_its_end_the_page_says_how_to_get_there(tmp_path: Path) -> None:
    text = page.build([fine_tuned(tmp_path / "ft", tested=False)])
    assert "The test images are judged at the end" in text
    assert "isopix resume" in text


def test_the_summary_has_a_line_for_its_own_classes(tmp_path: Path) -> None:
    rows = summary(page.read([fine_tuned(tmp_path / "ft")]))
    [row] = [row for row in rows if row.name == "fine-tuned"]
    assert row.test == 0.6
    assert (row.low, row.high) == wilson(0.6, 64)


def test_the_page_says_how_a_run_with_validation_folded_back_was_chosen(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "ft")
    chosen = {"step": 40, "validation_accuracy": 0.625, "run": "ft/choice"}
    write_json(run.environment, {"chosen": chosen})
    text = page.build([run])
    assert "as many as validation had chosen before, with an accuracy of 62.5\u00a0% there" in text
    assert "learnt from the training and the validation images together for 40 steps" in text


def test_verdicts_stand_in_a_table(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "ft")
    assert "mean probability" not in page.build([run])
    verdict = judge(torch.eye(7)[None].expand(3, -1, -1).contiguous(), torch.arange(7), seed=0)
    run.evaluations.mkdir()
    for masks, name in ((3, "a"), (0, "b")):
        facts = {"step": 100, "data": f"set {name}", "masks": masks, "command": ["isopix", "evaluate", name]}
        write_json(run.evaluations / f"{name}.json", facts | to_dict(verdict))
    (run.evaluations / "c.json").write_text("{}")
    text = page.build([run])
    assert text.count("set a") == text.count("set b") == 1
    assert text.count("100.0\u00a0%") >= 6  # accuracy and top 5 of both, one mask and their mean of the first
    assert "isopix evaluate a" in text
    assert "c.json: &#39;accuracy&#39; is missing" in text


def test_other_runs_have_no_such_part(tmp_path: Path) -> None:
    assert "classified rightly" not in page.build([bare(tmp_path / "run")])
