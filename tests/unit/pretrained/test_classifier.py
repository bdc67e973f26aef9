"""Fine-tuned models in Python: classes, probabilities, predictions, and a saved one is a classifier."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import isopix
from isopix.data.dataset import DataConfig, ImageDataset, load_dataset
from isopix.finetuning.evaluate import ensemble_logits
from isopix.recipes import registry
from isopix.runs.load import build_network, find_checkpoint
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import prepare_finetune
from isopix.runs.training_log import RunObserver
from tests.unit.data.refusal import refusal

CPU = torch.device("cpu")
SETTINGS = ["depth=1", "width=16", "batch_size=16", "steps=40", "evaluate_every=20", "data.augment=none"]
SETTINGS += ["data.limit=150", "lr=0.03", "head_bias=true"]


def finetuned(folder: Path, name: str, *settings: str) -> Path:
    recipe = prepare_finetune(name, settings=[*SETTINGS, *settings]).recipe
    train_recipe(recipe, folder, device=CPU, observer=RunObserver())
    return folder


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finetuned(tmp_path_factory.mktemp("ar") / "run", "igpt.digits")


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finetuned(tmp_path_factory.mktemp("bert") / "run", "igpt.digits_bert")


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=150))


def test_probabilities_are_those_of_the_saved_weights_by_hand(causal: Path, data: ImageDataset) -> None:
    """The mean of the last layer's features times the matrix of the file, plus its biases."""
    found, _ = find_checkpoint(causal / "best")
    images, weights = data.test.images, found.tensors["classifier"]
    *_, last = build_network(found).eval().features(images)
    logits = last.detach().double().mean(1) @ weights["weight"].double().T + weights["bias"].double()
    expected = torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)
    model = isopix.load(causal, device="cpu")
    assert model.classes == tuple("0123456789")
    torch.testing.assert_close(model.predict_proba(images).double(), expected, rtol=1e-4, atol=1e-6)
    assert model.predict(images).tolist() == [str(each) for each in expected.argmax(1).tolist()]


@pytest.mark.parametrize("name", ["causal", "masked"])
def test_predictions_have_the_accuracy_of_evaluate(
    name: str, data: ImageDataset, request: pytest.FixtureRequest
) -> None:
    """A masked model is evaluated on masked images by its own setting; so are its predictions."""
    run = request.getfixturevalue(name)
    model, test = isopix.load(run, device="cpu"), data.test
    truth = np.array(data.classes)[test.labels.numpy()]
    for masks in (None, 3) if name == "masked" else (None,):
        measured = isopix.evaluate(model, data=data, mask_ensemble=masks)
        assert measured.path is None
        accuracy = float((model.predict(test.images, mask_ensemble=masks) == truth).mean())
        assert accuracy == pytest.approx(measured.metrics.accuracy)
    whole = model.predict_proba(test.images, mask_ensemble=0)
    torch.testing.assert_close(model.class_logits(test.images).softmax(1).detach(), whole)
    assert torch.equal(whole, model.predict_proba(test.images)) == (name == "causal")


def test_the_probabilities_of_several_masks_are_a_mean_of_probabilities(
    masked: Path, data: ImageDataset
) -> None:
    """And not those of the mean logits."""
    model, images = isopix.load(masked, device="cpu"), data.test.images
    tuned = model.loaded.finetuned("RUN")
    each = ensemble_logits(tuned, images, masks=3, seed=0, precision="fp32").double()
    assert each.shape[0] == 3
    expected = sum(torch.exp(one) / torch.exp(one).sum(1, keepdim=True) for one in each) / 3
    found = model.predict_proba(images, mask_ensemble=3).double()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert (found - each.mean(0).softmax(1)).abs().max() > 1e-4


def test_a_classifier_that_is_saved_is_a_classifier(
    causal: Path, masked: Path, data: ImageDataset, tmp_path: Path
) -> None:
    for run in (causal, masked):
        model, folder = isopix.load(run, device="cpu"), tmp_path / run.parent.name
        isopix.save(model, folder)
        again = isopix.load(folder, device="cpu")
        assert again.classes == model.classes
        expected = model.predict_proba(data.test.images)
        assert torch.equal(again.predict_proba(data.test.images), expected)
        assert torch.equal(pickle.loads(pickle.dumps(model)).predict_proba(data.test.images), expected)
        before, after = (isopix.evaluate(each, data=data).metrics for each in (model, again))
        assert before == after


def test_gradients_flow_through_the_class_head(causal: Path, data: ImageDataset) -> None:
    model = isopix.load(causal, device="cpu")
    F.cross_entropy(model.class_logits(data.test.images), data.test.labels).backward()
    assert model.class_head.weight.grad.any()
    assert model.network.backbone.blocks[0].attention.qkv.weight.grad.any()
    assert "class_head.weight" in model.state_dict()


def test_a_model_without_a_class_head_says_how_to_get_one(tmp_path: Path, data: ImageDataset) -> None:
    recipe = registry.resolve("igpt.digits", assignments=["depth=1", "width=16", "steps=1", "data.limit=20"])
    train_recipe(recipe.recipe, tmp_path / "run", device=CPU, observer=RunObserver())
    model = isopix.load(tmp_path / "run", device="cpu")
    assert model.classes == ()
    for call in (model.predict, model.predict_proba, model.class_logits):
        assert refusal(call, data.test.images).startswith(
            "this model is not fine-tuned on classes and has no class head"
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_of_another_type_classifies_nearly_as_before(
    causal: Path, data: ImageDataset, dtype: torch.dtype
) -> None:
    images = data.test.images[:8]
    expected = isopix.load(causal, device="cpu").predict_proba(images)
    found = isopix.load(causal, device="cpu").to(dtype)
    assert found.class_logits(images).dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(found.predict_proba(images).float(), expected, rtol=0, atol=0.05)


def test_a_classifier_of_a_pool_of_cells_is_saved_and_evaluated(pristine: Path, tmp_path: Path) -> None:
    words = [*SETTINGS[2:6], "steps=4", "patience=null", "evaluate_every=2", "pool=grid4"]
    tuned = isopix.finetune(pristine / "ar", *words, out=tmp_path / "tuned", device="cpu").model
    assert tuned.loaded.recipe.finetune.pool == "grid4"
    assert tuned.class_head.weight.shape == (10, 16 * tuned.loaded.recipe.model.width)
    assert tuned.class_head.weight.any()
    assert 0 <= isopix.evaluate(tmp_path / "tuned", device="cpu").metrics.accuracy <= 1
