"""Fine-tuned runs: test accuracy with its interval, and the loss of codes or of classes by step."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.core.stats import wilson_interval
from isopix.finetuning.config import FineTuneConfig
from isopix.finetuning.evaluate import evaluate_predictions
from isopix.finetuning.results import EvaluationResult
from isopix.recipes import igpt
from isopix.reporting import page
from isopix.reporting.baselines import baseline_rows, baselines_section
from isopix.reporting.headline import headline
from isopix.reporting.run_reader import read_run
from isopix.storage import checkpoint, log
from isopix.storage.atomic import write_json
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import bare, measurement, records, whole

JOINT = FineTuneConfig(generative_weight=0.5, layer=2)

INTERVAL = "(95\u00a0% interval 47.8\u00a0% to 71.1\u00a0%)"  # Wilson's, by hand
ABOUT = "64 test images; majority class 12.5\u00a0%."


def fine_tuned(path: Path, *, tested: bool = True, finetune: FineTuneConfig = JOINT) -> RunFolder:
    run = bare(path, replace(igpt.digits(), finetune=finetune))
    pretrained = {"run": "runs/pre", "step": 400}
    write_json(run.environment, {"pretrained": pretrained, "majority": 0.125, "command": ["isopix"]})
    written = log.RunLog(run.log)
    accuracies = iter([0.1, 0.625, 0.6])
    for each in records():
        if each["kind"] != "evaluation" or each["split"] == "validation" or tested:
            written.write(each | ({"accuracy": next(accuracies)} if each["kind"] == "evaluation" else {}))
    written.close()
    return run


def test_the_page_shows_the_accuracy_and_the_initialization(tmp_path: Path) -> None:
    text = page.build([fine_tuned(tmp_path / "ft")])
    assert f"Test accuracy after fine-tuning: 60.0\u00a0% {INTERVAL}; {ABOUT}" in text
    assert '<th scope="row">test accuracy</th><td class="n">60.0\u00a0%</td>' in text
    assert '<th scope="row">test images</th><td class="n">64</td>' in text
    assert "Fine-tuned from step 400 of runs/pre; loss 0.5 · L_GEN + L_CLF; class head on layer 2." in text
    assert "Ring: best step on validation images, 100." in text
    assert "majority class 12.5 %" in text
    assert ">training, smoothed</text>" in text


@pytest.mark.parametrize("finetune", [FineTuneConfig(patience=None), FineTuneConfig(generative_weight="inf")])
def test_a_run_that_chose_nothing_shows_no_choice(tmp_path: Path, finetune: FineTuneConfig) -> None:
    text = page.build([fine_tuned(tmp_path / "ft", finetune=finetune)])
    assert "Ring: step" not in text
    assert "Best validation accuracy" not in text
    assert "last step, no early stopping" in text
    assert "best validation step" not in text.partition(">Fine-tuning<")[2].partition("</section>")[0]


def test_for_classes_alone_the_page_shows_no_loss_of_codes(tmp_path: Path) -> None:
    alone = FineTuneConfig(generative_weight=0.0)
    run = fine_tuned(tmp_path / "ft", finetune=alone)
    lines = [{**each, "class_nats": 1.25} for each in log.read_log(run.log)]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    write_json(run.environment, {"trained_parameters": 12345})
    state = {"state": {"step": 100, "classes": ["a", "b", "c"]}}
    checkpoint.save_checkpoint(
        checkpoint.step_folder(run.checkpoints, 100), {"model": {"x": torch.zeros(4)}}, state
    )
    text = page.build([run])
    assert "Test loss: 1.250 nats per image (1.803 bits), 64 test images." in text
    assert "Uniform prediction of 3 values: ln 3 = 1.099 nats per image (dotted line)." in text
    for said in (
        "nats per image",
        ">training, smoothed</text>",
        "<dt>trained parameters</dt><dd>12,345</dd>",
    ):
        assert said in text
    assert "<dt>objective</dt><dd>L_CLF</dd>" in text
    for absent in ("1.800", "1.80 nats", "per pixel", "isopix sample", "isopix complete", "ln 17"):
        assert absent not in text
    rows = baseline_rows(page.read([run]))
    assert [row.name for row in rows] == ["ft", "fine-tuned"]
    assert {row.loss for row in rows} == {None}


def test_the_page_says_of_how_many_images_and_which_weights(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "ft")
    facts = {
        "measurement": measurement(images=64, available=450, baselines={"majority class": 0.109}).to_dict(),
        "step": 40,
        "last_step": 100,
        "train_images": 30,
        "selection_images": 64,
    }
    lines = [{**each, **facts} if each.get("split") == "test" else each for each in log.read_log(run.log)]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    text = page.build([run])
    for said in (
        '<th scope="row">test images</th><td class="n">64 of 450</td>',
        '<th scope="row">step of the weights</th><td class="n">40</td>',
        '<th scope="row">labeled training images</th><td class="n">30</td>',
        "best step on 64 labeled validation images",
        '<th scope="row">majority class</th><td class="n">10.9\u00a0%</td>',
        "64 of 450 test images",
    ):
        assert said in text


def test_before_its_end_the_page_says_how_to_get_there(tmp_path: Path) -> None:
    text = page.build([fine_tuned(tmp_path / "ft", tested=False)])
    assert "Not evaluated on test images yet" in text
    assert "isopix resume" in text


def test_the_baselines_have_a_row_for_the_class_head(tmp_path: Path) -> None:
    rows = baseline_rows(page.read([fine_tuned(tmp_path / "ft")]))
    [row] = [row for row in rows if row.name == "fine-tuned"]
    assert row.accuracy == 0.6
    assert (row.low, row.high) == wilson_interval(0.6, 64)


def test_the_page_says_how_many_steps_a_refit_has(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "ft")
    selected = {"step": 40, "validation_accuracy": 0.625, "run": "ft/selection"}
    write_json(run.environment, {"selected": selected})
    lines = [{**each, "selection_images": 1500} for each in log.read_log(run.log)]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    text = page.build([run])
    assert "refit on train + validation for 40 steps" in text
    assert 'that step on 1,500 labeled validation images</th><td class="n">62.5\u00a0%' in text


def test_evaluations_are_a_table(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "ft")
    assert "mean probability" not in page.build([run])
    verdict = evaluate_predictions(torch.eye(7)[None].expand(3, -1, -1).contiguous(), torch.arange(7), seed=0)
    run.evaluations.mkdir()
    for masks, name in ((3, "a"), (0, "b")):
        result = EvaluationResult(
            call={"verb": "evaluate", "command": ["isopix", "evaluate", name], "written": "", "folder": ""},
            data=f"set {name}",
            step=100,
            mask_ensemble=masks,
            precision="fp32",
            classes=tuple("abcdefg"),
            metrics=verdict,
        )
        result.saved(run.evaluations / f"{name}.json")
    (run.evaluations / "c.json").write_text("{}")
    text = page.build([run])
    assert text.count("set a") == text.count("set b") == 1
    assert text.count("100.0\u00a0%") >= 6  # accuracy and top 5 of both, one mask and their mean of the first
    assert "isopix evaluate a" in text
    assert "c.json is no EvaluationResult" in text
    assert "majority vote" in text
    (run.evaluations / "a.json").unlink()
    text = page.build([run])
    assert "set b" in text
    assert "majority vote" not in text  # of an evaluation without masks


def test_other_runs_have_no_such_part(tmp_path: Path) -> None:
    assert ">Fine-tuning<" not in page.build([bare(tmp_path / "run")])


def test_the_headline_names_the_accuracies_of_fine_tuned_runs(tmp_path: Path) -> None:
    tuned, other = (read_run(fine_tuned(tmp_path / name)) for name in ("a", "b"))
    plain = read_run(bare(tmp_path / "plain"))
    assert headline({"a": tuned, "b": other, "plain": plain}) == (
        f"Test accuracy after fine-tuning: 60.0\u00a0% (a), 60.0\u00a0% (b); {ABOUT}"
    )
    probed = read_run(whole(tmp_path / "probed"))
    text = headline({"probed": probed, "a": tuned})
    assert text.startswith("Linear-probe test accuracy: ")
    shown = f"60.0\u00a0% (a) {INTERVAL}; {ABOUT}"
    assert text.endswith(f" Test accuracy after fine-tuning: {shown}")
    assert headline({"plain": plain, "same": plain}) == "2 runs, not probed yet."


@pytest.mark.parametrize(
    ("changes", "different"),
    [
        ({"labels_seen": 1437}, "labels seen in training"),
        ({"images_hash": "b", "selection": "step chosen on 9 validation images"}, "images and selection"),
        ({"seeds": {"train.seed": 5}}, ""),
    ],
)
def test_accuracies_that_cannot_be_compared_are_named(
    tmp_path: Path, changes: dict[str, object], different: str
) -> None:
    folders = [fine_tuned(tmp_path / name) for name in ("a", "b")]
    for folder, found in zip(folders, (measurement(), measurement(**changes)), strict=True):
        lines = [
            {**each, "measurement": found.to_dict()} if each.get("split") == "test" else each
            for each in log.read_log(folder.log)
        ]
        folder.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    runs = page.read(folders)
    text = headline(runs)
    if different:
        assert text == (f"Test accuracies after fine-tuning cannot be compared: they differ in {different}.")
        assert f"The accuracies after fine-tuning cannot be compared, as they differ in {different}." in str(
            baselines_section(runs)
        )
    else:
        shown = "60.0\u00a0% (a), 60.0\u00a0% (b); 64 of 180 test images; majority class 12.5\u00a0%."
        assert text == f"Test accuracy after fine-tuning: {shown}"
        assert "cannot be compared" not in str(baselines_section(runs))


def test_the_caption_names_the_test_images_and_that_fine_tuned_features_are_not_frozen(
    tmp_path: Path,
) -> None:
    probed = read_run(whole(tmp_path / "pre"))
    tuned = read_run(fine_tuned(tmp_path / "ft"))
    count = probed.probe.report.network.num_images["test"] if probed.probe else 0
    captions = [
        str(baselines_section(runs).panels[0].notes[0])
        for runs in ({"pre": probed}, {"ft": tuned}, {"pre": probed, "ft": tuned})
    ]
    assert ["not frozen" in each for each in captions] == [False, True, True]
    assert f", on {count} test images, with its 95" in captions[0]
    assert ", on 64 test images, with its 95" in captions[1]
    assert f", on test images (pre: {count}; ft, fine-tuned: 64), with its 95" in captions[2]
