"""Law of resume: n steps equal k steps, a stop, and n - k steps, bit for bit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.core.overrides import override, parse
from isopix.data.load import load_dataset
from isopix.finetuning.classifier import FineTuneConfig
from isopix.recipes import registry
from isopix.runs.load import load_run
from isopix.runs.training_log import RunObserver
from isopix.storage import checkpoint
from isopix.train.evaluator import evaluate_split
from isopix.train.tasks import PretrainTask
from tests.trained import CPU, StopAt, different_weights, logged, newest, resume, train

SMALL = ["depth=1", "width=16", "steps=12", "batch_size=8", "log_every=1", "evaluate_every=5"]
SMALL += ["evaluate_images=16", "num_test_images=16", "checkpoint_every=4", "data.limit=50"]
DIGITS_IN_PATCHES = ["data.source=digits", "data.rows=32", "data.cols=32"]
RESNET = ["codec.patch_size=8", "stem=resnet", "stem.stages=[1,1]", "data.patch_augment=random"]
SETTINGS = {
    "ar": ("igpt.digits", []),
    "bert": ("igpt.digits_bert", []),
    "accumulated": ("igpt.digits", ["accumulate=4"]),
    "dropout": ("igpt.digits", ["block.dropout=0.2", "attention_dropout=0.2", "embedding_dropout=0.1"]),
    "averaged": ("igpt.digits_bert", ["depth=3", "train.ema=0.5", "drop_path=0.5", "layer_decay=0.5"]),
    "bf16": ("igpt.digits_bert", ["precision=bf16"]),
    "fine-tuned": ("igpt.digits", ["finetune.dropout=0.2", "mixup=1", "evaluate_every=2", "data.limit=100"]),
    "fine-tuned, classes alone": ("igpt.digits_bert", ["finetune.generative_weight=0", "finetune.layer=0"]),
    "bytes": ("isotropic.tiny-conv-fourier-1", ["data.source=digits", "data.rows=8", "data.cols=8"]),
    "patches": ("patchformer.tiny", [*DIGITS_IN_PATCHES, "head.channels=8", *RESNET, "stem.channels=4"]),
    "augmented": ("igpt.digits", ["data.augment=rand_augment", "augment.erase=0.5", "rows=16", "cols=16"]),
}


def recipe(name: str, changes: list[str]):
    given = registry.find(name)
    if any(change.startswith("finetune.") for change in changes):
        given = replace(given, finetune=FineTuneConfig())
    return override(given, parse([*SMALL, *changes]))


def losses(out: Path) -> list[tuple[str, int, float]]:
    found = [(r["kind"], r["step"], r.get("loss_nats", r.get("class_nats"))) for r in logged(out)]
    return [each for each in found if each[0] != "note"]


@pytest.fixture(scope="module", params=SETTINGS)
def uninterrupted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each setting."""
    out = tmp_path_factory.mktemp("uninterrupted") / request.param
    settings = recipe(*SETTINGS[request.param])
    assert train(settings, out).finished
    return out


@pytest.mark.parametrize("stops", [(4,), (5, 3)], ids=str)
def test_a_stopped_run_ends_like_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: Path, stops: tuple[int, ...]
) -> None:
    settings = recipe(*SETTINGS[uninterrupted.name])
    assert not train(settings, tmp_path / "parts", observer=RunObserver(stop=StopAt(stops[0]))).finished
    for steps in stops[1:]:
        assert not resume(tmp_path / "parts", StopAt(steps)).finished
    assert resume(tmp_path / "parts").finished
    assert different_weights(tmp_path / "parts", uninterrupted) == []
    assert losses(uninterrupted) == losses(tmp_path / "parts")


@pytest.mark.parametrize(("words", "ends"), [("train.ema=0.5", 12), ("patience=2 evaluate_every=1", 4)])
def test_the_weights_that_were_evaluated_best_or_last_are_tested_and_loaded(
    words: str, ends: int, tmp_path: Path
) -> None:
    """Those in training are others: of which the average is evaluated, or of later steps."""
    settings = recipe("igpt.digits_bert", ["lr=0.05", "schedule=constant", *words.split()])
    train(settings, tmp_path / "run", observer=RunObserver(stop=StopAt(3)))
    assert resume(tmp_path / "run").finished
    loaded, data = load_run(tmp_path / "run", device=CPU), load_dataset(settings.data)
    log = logged(tmp_path / "run", kind="evaluation")
    found = {each["step"]: each["loss_nats"] for each in log if each["split"] == "validation"}
    assert (max(found), loaded.step) == (ends, min(found, key=found.__getitem__) if ends < 12 else 12)
    for split in ("validation", "test"):
        images, options = getattr(data, split).sample(16), {"seed": settings.train.seed, "precision": "fp32"}
        loss = evaluate_split(PretrainTask(loaded.model), images, **options)["loss_nats"]
        [expected] = (each for each in log if (each["step"], each["split"]) == (loaded.step, split))
        assert expected["loss_nats"] == loss
    newer = newest(tmp_path / "run").tensors
    weights = newer["optimizer"] if "ema" in words else newer["model"]
    for name, parameter in loaded.network.named_parameters():
        in_training = weights[f"network.{name}/average" if "ema" in words else name]
        assert not torch.equal(in_training, parameter)


def test_a_run_killed_between_checkpoints_resumes_from_the_last_one(tmp_path: Path) -> None:
    """The log lines after the checkpoint are written anew, none twice."""
    settings = recipe("igpt.digits", [])
    train(settings, tmp_path / "whole")

    def die(record: dict[str, object]) -> None:
        if record["kind"] == "train" and record["step"] == 7:
            raise KeyError("killed")

    with pytest.raises(KeyError, match="killed"):
        train(settings, tmp_path / "parts", observer=RunObserver(record=die))
    assert losses(tmp_path / "parts")[-1][1] == 7
    resume(tmp_path / "parts")
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")


@pytest.mark.parametrize(("name", "then"), [("threads", 7), ("torch", "2.0"), ("pillow", "1.0")])
def test_resume_says_what_keeps_it_from_being_bit_for_bit(tmp_path: Path, name: str, then: object) -> None:
    out = tmp_path / "run"
    train(recipe("igpt.digits", []), out, observer=RunObserver(stop=StopAt(2)))
    found = newest(out)
    records = {**found.records, "environment": {**found.records["environment"], name: then}}
    checkpoint.save_checkpoint(found.path, found.tensors, records)
    resume(out)
    notes = [record["text"] for record in logged(out, kind="note")]
    now = found.records["environment"][name]
    assert notes == [f"resumed with {name} {now}, the run had {then}: weights may differ in the last bits"]
