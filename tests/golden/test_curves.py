"""The first losses of each family of recipes, step by step: a change of any number in training shows here."""

from pathlib import Path

import pytest

import isopix
from isopix.storage.atomic import read_json
from tests.golden.values import check_golden
from tests.trained import logged, train

CURVES = read_json(Path(__file__).parent / "curves.json")
DIGITS = ["data.source=digits", "data.rows=8", "data.cols=8"]
ENLARGED = ["data.source=digits", "data.rows=32", "data.cols=32", "width=32"]
RESNET = ["codec.patch_size=8", "stem=resnet", "stem.stages=[1,1]", "stem.channels=8"]
RESNET += ["data.patch_augment=random", "head.channels=16", "head.norm=true"]
ADAM = ["lr=1e-3", "beta2=0.999", "schedule=constant"]
SMALLER = {"patchformer.tiny": [*ENLARGED, *RESNET, *ADAM], "vit.tiny": ENLARGED}


@pytest.mark.parametrize("name", CURVES)
def test_twenty_steps_give_the_same_losses_as_ever(name: str, tmp_path: Path) -> None:
    words = ["steps=20", "batch_size=32", "log_every=1", "evaluate_images=0", "num_test_images=0"]
    words.append("holdout=0")  # which images are held out has its own tests
    train(name, tmp_path / "run", *words, *SMALLER.get(name, DIGITS))
    losses = [each["loss_nats"] for each in logged(tmp_path / "run", kind="train")]
    assert losses == pytest.approx(CURVES[name], rel=5e-5)  # processors without AVX-512 differ by 2e-5


@pytest.mark.parametrize("name", CURVES)
def test_each_family_is_measured_as_ever(name: str, tmp_path: Path) -> None:
    words = ["steps=2", "batch_size=8", "data.limit=60", "evaluate_images=8", "num_test_images=8"]
    run = tmp_path / "run"
    train(name, run, *words, *SMALLER.get(name, DIGITS))
    measured = [isopix.analyze(run, limit=4), isopix.probe(run, method="ridge"), isopix.evaluate(run)]
    check_golden("families", name, [[each.record(), str(each).splitlines()] for each in measured])
