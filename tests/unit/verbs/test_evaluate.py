"""`isopix evaluate` and what measurements share: which images are read, and what is said of them."""

from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from tests.tiny_runs import CPU, LIMIT, Copy
from tests.unit.data.refusal import refusal

FEW = ["steps=2", "evaluate_every=1", "batch_size=8", "num_test_images=16", "evaluate_images=16"]


def test_abandoned_decoders_are_refused_and_few_labels_say_what_a_network_has_seen(
    pristine: Path, tmp_path: Path
) -> None:
    out, words = tmp_path / "classes", [*FEW, "generative_weight=0", "patience=null"]
    isopix.finetune(pristine / "ar", *words, out=out, limit=LIMIT, **CPU)
    model, image = isopix.load(out), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    message = "needs the decoder, which does not fit this network: it was fine-tuned without the generative"
    for call in (
        lambda: isopix.sample(out, 1, **CPU),
        lambda: isopix.complete(out, data=tmp_path / "nowhere", **CPU),
        lambda: model.nll(image),
        lambda: model.logits(image),
        lambda: isopix.export(out, tmp_path / "exported"),
    ):
        assert message in refusal(call)
    assert model(image).shape[0] == 1
    found = isopix.probe(out, labels=[2], subsets=1, method="ridge", **CPU)
    assert found.measurement.labels_seen == LIMIT
    known = f"was trained on the labels of {LIMIT} images before"
    assert any(known in each for each in found.warnings)


def _pets(path: Path, train: int, test: int, seed: int) -> Path:
    """30 training and 12 test images of as many of the classes cat, dog and owl."""
    images = np.random.default_rng(seed).integers(0, 256, (42, 8, 8), dtype=np.uint8)
    labels = {"y_train": np.arange(30) % train, "y_test": np.arange(12) % test}
    np.savez(path, x_train=images[:30], x_test=images[30:], class_names=["cat", "dog", "owl"], **labels)
    return path


def test_images_of_classes_that_the_run_was_not_trained_on_are_counted(tmp_path: Path) -> None:
    """Also where the dataset that is evaluated has training images of these classes."""
    own, other = _pets(tmp_path / "own.npz", 2, 2, seed=0), _pets(tmp_path / "other.npz", 3, 3, seed=1)
    words = [*FEW, "depth=1", "width=16", "heads=2", "size=8", "data.augment=none"]
    tuned = isopix.finetune("igpt.digits", *words, from_scratch=True, data=own, out=tmp_path / "tuned", **CPU)
    [warning] = isopix.evaluate(tuned, data=other, **CPU).measurement.warnings
    assert warning.startswith("4 of 12 test images of dataset 'other' are of classes without training images")
    assert warning.endswith("owl (4)")


def test_the_seed_in_a_record_is_that_of_the_images(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    for words, seed in ((["seed=7"], 7), ([], 0)):
        measurement = isopix.evaluate(run, *words, limit=20, **CPU).measurement
        assert measurement.seeds == {"train.seed": 0, "data.seed": seed}


def test_a_read_only_run_is_refused_before_its_images_are_read(
    pristine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pristine / "ar"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("isopix.data.load.load_dataset", None)
    for verb in (isopix.probe, isopix.evaluate, isopix.analyze, isopix.report):
        message = refusal(verb, run)
        assert message.startswith(str(run))
        assert " is read-only, and results are saved in " in message
    for draw in (isopix.sample, isopix.complete, isopix.reconstruct):
        assert f"results are saved in {run / 'samples'}" in refusal(draw, run)


def test_a_path_that_only_the_run_names_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(_pets(tmp_path / "pets.npz", 3, 3, seed=0))
    words = ["steps=1", "depth=1", "width=16", "heads=2", "size=8"]
    run = isopix.pretrain("igpt.digits", *words, data=data, out=tmp_path / "run", **CPU)
    isopix.analyze(run, only=["position_embeddings"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    asked = f"this run was trained on {data}, which you have not used before; to read it, give --data {data}"
    for verb in (isopix.probe, isopix.analyze, isopix.complete):
        assert refusal(verb, run) == asked
    assert refusal(lambda: isopix.finetune(run, out=tmp_path / "tuned")) == asked
    isopix.analyze(run, data=data, only=["position_embeddings"])
    isopix.analyze(run, only=["position_embeddings"])
