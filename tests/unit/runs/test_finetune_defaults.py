"""What fine-tuning does unless told otherwise, and what its numbers say about themselves."""

from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.data.augment import AugmentationSpec, NoAugmentation, PadCropFlip, ScaleCrop
from isopix.recipes import registry
from isopix.runs.load import load_run
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import finetune_recipe, prepare_finetune
from isopix.runs.training_log import RunObserver
from isopix.storage import log

CPU = torch.device("cpu")
SMALL = ["depth=1", "width=16", "batch_size=16", "log_every=1", "evaluate_images=20", "num_test_images=20"]
QUICK = ["steps=4", "evaluate_every=2", "lr=0.003", "evaluate_images=null", "num_test_images=null"]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "pre"
    recipe = registry.resolve("igpt.digits", assignments=[*SMALL, "steps=2"]).recipe
    train_recipe(recipe, out, device=CPU, observer=RunObserver())
    return out


def finetuned(source: Path, out: Path, *words: str) -> list[Any]:
    recipe, initial = prepare_finetune(str(source), settings=[*QUICK, *words])
    assert train_recipe(recipe, out, device=CPU, observer=RunObserver(), initial=initial).finished
    return log.read_log(out / "log.jsonl")


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("igpt.s", "imagenet-1k", ScaleCrop(flip=0.0)),
        ("igpt.l", "/data/imagenet", ScaleCrop(flip=0.0)),
        ("igpt.s", "cifar10", PadCropFlip()),
        ("igpt.tiny", "/data/cifar", PadCropFlip()),
        ("igpt.digits", "digits", NoAugmentation()),
        ("igpt.digits", "/data/glyphs", NoAugmentation()),
        ("patchformer.base", "imagenet-1k", ScaleCrop(flip=0.0)),
        ("patchformer.tiny", "/data/photos", PadCropFlip()),
        ("vit.b16", "imagenet-1k", ScaleCrop(flip=0.5)),
    ],
)
def test_the_augmentation_follows_the_dataset_then_the_recipe(
    name: str, source: str, expected: AugmentationSpec
) -> None:
    recipe = finetune_recipe(registry.find(name), source, from_scratch=False)
    assert recipe.data.augment == expected


@pytest.mark.parametrize(("weight", "step", "valid"), [(0, 4, False), (1, 4, True), (0, 0, True)])
def test_a_decoder_is_valid_where_it_was_trained_with_the_backbone(
    pretrained: Path, tmp_path: Path, weight: int, step: int, valid: bool
) -> None:
    finetuned(
        pretrained, tmp_path / "ft", f"generative_weight={weight}", "patience=null", "checkpoint_every=4"
    )
    loaded = load_run(tmp_path / f"ft/checkpoints/step-{step:08d}", device=CPU)
    assert loaded.state.decoder_valid == valid
    if not valid:
        with pytest.raises(ValueError, match="sample needs the decoder, which does not fit this network"):
            loaded.require_decoder("sample")


@pytest.fixture(scope="module")
def abandoned(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "classes"
    finetuned(pretrained, out, "generative_weight=0", "patience=null")
    return out


JOINT = ("generative_weight=1", "patience=null", "evaluate_images=60")


def test_an_abandoned_decoder_is_valid_once_its_validation_loss_is_below_the_unigram_baseline(
    abandoned: Path, tmp_path: Path
) -> None:
    records = finetuned(abandoned, tmp_path / "two", *JOINT, "steps=60", "lr=0.02", "checkpoint_every=60")
    [unigram] = [each["nats"]["unigram"] for each in records if each.get("held_out") == "validation"]
    losses = {each["step"]: each["loss_nats"] for each in records if each.get("split") == "validation"}
    assert losses[0] > unigram > losses[60], "else the test shows nothing"
    steps = [load_run(tmp_path / f"two/checkpoints/step-{step:08d}", device=CPU) for step in (0, 60)]
    assert [each.state.decoder_valid for each in steps] == [False, True]


def test_labels_that_a_network_has_seen_are_counted(pretrained: Path, tmp_path: Path) -> None:
    assert load_run(pretrained, device=CPU).state.labels_seen == 0
    finetuned(pretrained, tmp_path / "one", "data.labels_per_class=2")
    finetuned(tmp_path / "one", tmp_path / "two", "data.labels_per_class=3")
    finetuned(tmp_path / "two", tmp_path / "codes", "generative_weight=inf")
    seen = [load_run(tmp_path / name, device=CPU).state.labels_seen for name in ("one", "two", "codes")]
    assert seen == [20, 30, 30]  # the smaller subset is a part of the larger one
