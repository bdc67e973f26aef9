"""Fine-tuning: where it starts, when it stops, which weights are tested, and its defaults."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import isopix
from isopix.core.types import Grid
from isopix.model.positions import interpolate_pos_embed
from isopix.runs.load import load_run
from isopix.runs.resume import resume_run
from isopix.runs.start import prepare_finetune
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint, log
from isopix.storage.atomic import delete
from tests.trained import CPU, logged, resume, train

SMALL = ["depth=2", "width=16", "batch_size=16", "log_every=1", "evaluate_images=60", "num_test_images=60"]
QUICK = ["steps=12", "evaluate_every=2", "data.augment=none", "lr=0.01", "data.limit=200"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("igpt.digits_bert", tmp_path_factory.mktemp("run") / "pre", *SMALL, "steps=4").run.path


def finetuned(pretrained: Path, out: Path, *words: str) -> list[dict[str, object]]:
    assert train(prepare_finetune(str(pretrained), settings=[*QUICK, *words]), out).finished
    return list(log.read_log(out / "log.jsonl"))


def accuracies(records: list[dict[str, object]], split: str) -> dict[int, float]:
    return {each["step"]: each["accuracy"] for each in records if each.get("split") == split}


def test_it_starts_from_the_weights_of_the_run(pretrained: Path, tmp_path: Path) -> None:
    finetuned(pretrained, tmp_path / "ft", "steps=1", "checkpoint_every=1")
    first = checkpoint.load_checkpoint(tmp_path / "ft/checkpoints/step-00000000").tensors
    weights = load_run(pretrained, device=CPU).network.tensors()
    assert all(torch.equal(first["model"][name], tensor) for name, tensor in weights.items())
    assert not first["classifier"]["weight"].any()


def test_weights_of_an_older_checkpoint_are_named(pretrained: Path, tmp_path: Path) -> None:
    shutil.copytree(pretrained, tmp_path / "pre")
    (tmp_path / "pre/checkpoints/step-00000004/model.safetensors").write_bytes(b"")
    records = finetuned(tmp_path / "pre", tmp_path / "ft", "steps=1")
    notes = [each["text"] for each in records if each["kind"] == "note"]
    assert "step-00000004: model.safetensors has 0 bytes" in notes[0]


def test_the_best_weights_are_saved_and_tested_once(pretrained: Path, tmp_path: Path) -> None:
    records = finetuned(pretrained, tmp_path / "ft", "lr=0.1", "mask_at_eval=false")
    seen = accuracies(records, "validation")
    step = max(seen, key=lambda each: (seen[each], -each))
    assert 0 < step < 12, "else the test shows nothing"
    assert checkpoint.load_checkpoint(tmp_path / "ft/best").records["state"]["step"] == step
    assert load_run(tmp_path / "ft", device=CPU).step == step
    tested = [each for each in records if each.get("split") == "test"]
    assert [(each["step"], each["last_step"]) for each in tested] == [(step, 12)]
    found = isopix.evaluate(tmp_path / "ft", device="cpu").metrics
    assert found.cross_entropy == pytest.approx(tested[0]["class_nats"], rel=1e-5)


@pytest.mark.parametrize("lost", ["best", "best/manifest.json", "best/model.safetensors"])
def test_weights_that_validation_did_not_choose_are_not_said_to_be_chosen(
    pretrained: Path, tmp_path: Path, lost: str
) -> None:
    """The best ones are lost, of a run that was killed before its test."""
    run = tmp_path / "ft"
    best = [each["step"] for each in finetuned(pretrained, run, "lr=0.1") if each.get("split") == "test"]
    assert 0 < best[0] < 12, "else the test shows nothing"
    lines = (run / "log.jsonl").read_text().splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(each for each in lines if '"split": "test"' not in each))
    delete(run / lost)
    resume(run)
    [test] = logged(run, split="test")
    assert (test["step"], test["selection_images"], test["measurement"]["selection"]) == (12, 0, "")
    loaded = load_run(run, device=CPU)
    assert (loaded.step, loaded.state.selection) == (12, "")
    assert "the weights of step 12 are used, which validation did not choose" in loaded.warnings[0]
    assert loaded.warnings[0] in [each["text"] for each in logged(run, kind="note")]


def test_patience_ends_the_run_at_the_evaluation_that_exhausts_it(pretrained: Path, tmp_path: Path) -> None:
    """With a learning rate near zero nothing is better than the first evaluation."""
    records = finetuned(pretrained, tmp_path / "ft", "patience=2", "lr=1e-30")
    assert sorted(accuracies(records, "validation")) == [0, 2, 4]
    assert max(each["step"] for each in records) == 4
    assert [each["step"] for each in records if "not above chance level" in str(each.get("text"))] == [4]
    again = resume_run(tmp_path / "ft", device=CPU, observer=RunObserver())
    assert (again.finished, again.step) == (True, 4)
    assert list(log.read_log(tmp_path / "ft/log.jsonl")) == records


@pytest.mark.parametrize(("weight", "layer"), [("0", "null"), ("0", "1"), ("1", "null")])
def test_without_a_generative_loss_none_is_logged_and_trained_parameters_are_counted(
    pretrained: Path, tmp_path: Path, weight: str, layer: str
) -> None:
    words = (f"generative_weight={weight}", f"layer={layer}", "steps=3", "checkpoint_every=3")
    evaluations = [each for each in finetuned(pretrained, tmp_path / "ft", *words) if "split" in each]
    assert all("class_nats" in each and "accuracy" in each for each in evaluations)
    assert {"loss_nats" in each for each in evaluations} == {weight == "1"}
    before, after = (
        checkpoint.load_checkpoint(tmp_path / f"ft/checkpoints/step-0000000{step}").tensors for step in (0, 3)
    )
    moved = sum(
        tensor.numel()
        for group in ("model", "classifier")
        for name, tensor in after[group].items()
        if not torch.equal(tensor, before[group][name])
    )
    environment = json.loads((tmp_path / "ft/environment.json").read_text())
    assert environment["trained_parameters"] == moved


def test_a_fine_tuned_run_is_fine_tuned_again_at_its_own_learning_rate_with_all_labels(
    pretrained: Path, tmp_path: Path
) -> None:
    finetuned(pretrained, tmp_path / "ft", "data.labels_per_class=4", "data.subset=1")
    first, second = prepare_finetune(str(pretrained)).recipe, prepare_finetune(str(tmp_path / "ft")).recipe
    assert first.train.optimizer.lr == 0.0003
    assert second.train.optimizer.lr == 0.01
    assert (second.data.labels_per_class, second.data.subset) == (None, 0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_positions_are_interpolated_as_the_saved_recipe_says(mode: str, tmp_path: Path) -> None:
    few = ["data.limit=60", "steps=1", "batch_size=8", "evaluate_images=8", "num_test_images=0"]
    words = [*few, "data.source=digits", "data.size=32", "depth=1", "width=16"]
    train("vit.tiny", tmp_path / "pre", *words)
    words = [*few, "data.size=48", f"interpolation={mode}"]
    start = prepare_finetune(str(tmp_path / "pre"), settings=words)
    name = "backbone.positions.table"
    small = load_run(tmp_path / "pre", device=CPU).network.tensors()[name]
    large = interpolate_pos_embed(small, Grid(4, 4), Grid(6, 6), mode)
    assert torch.equal(start.run.network.tensors()[name], large)
    train(start, tmp_path / "ft")
    again = load_run(tmp_path / "ft", device=CPU)
    assert (again.recipe.finetune.interpolation, again.recipe.grid) == (mode, Grid(6, 6))


@pytest.mark.parametrize(("weight", "step", "valid"), [(0, 4, False), (1, 4, True), (0, 0, True)])
def test_a_decoder_is_valid_where_it_was_trained_with_the_backbone(
    pretrained: Path, tmp_path: Path, weight: int, step: int, valid: bool
) -> None:
    words = (f"generative_weight={weight}", "patience=null", "steps=4", "checkpoint_every=4")
    finetuned(pretrained, tmp_path / "ft", *words)
    loaded = load_run(tmp_path / f"ft/checkpoints/step-{step:08d}", device=CPU)
    assert loaded.state.decoder_valid == valid
    if not valid:
        with pytest.raises(ValueError, match="sample needs the decoder, which does not fit this network"):
            loaded.require_decoder("sample")


def test_an_abandoned_decoder_is_valid_once_its_validation_loss_is_below_the_unigram_baseline(
    pretrained: Path, tmp_path: Path
) -> None:
    finetuned(pretrained, tmp_path / "one", "generative_weight=0", "patience=null", "lr=0.003", "steps=4")
    words = ("generative_weight=1", "patience=null", "steps=60", "lr=0.02", "checkpoint_every=60")
    records = finetuned(tmp_path / "one", tmp_path / "two", *words)
    [unigram] = [each["nats"]["unigram"] for each in records if each.get("held_out") == "validation"]
    losses = {each["step"]: each["loss_nats"] for each in records if each.get("split") == "validation"}
    assert losses[0] > unigram > losses[60], "else the test shows nothing"
    steps = [load_run(tmp_path / f"two/checkpoints/step-{step:08d}", device=CPU) for step in (0, 60)]
    assert [each.state.decoder_valid for each in steps] == [False, True]


def test_labels_that_a_network_has_seen_are_counted(pretrained: Path, tmp_path: Path) -> None:
    assert load_run(pretrained, device=CPU).state.labels_seen == 0
    finetuned(pretrained, tmp_path / "one", "steps=4", "data.labels_per_class=2")
    finetuned(tmp_path / "one", tmp_path / "two", "steps=4", "data.labels_per_class=3")
    finetuned(tmp_path / "two", tmp_path / "codes", "steps=4", "generative_weight=inf")
    seen = [load_run(tmp_path / name, device=CPU).state.labels_seen for name in ("one", "two", "codes")]
    assert seen == [20, 30, 30]  # the smaller subset is a part of the larger one
