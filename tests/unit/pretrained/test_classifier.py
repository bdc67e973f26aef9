"""Fine-tuned models in Python: classes, probabilities, predictions, and a saved one is a classifier."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import isopix
from isopix.data.dataset import DataConfig, ImageDataset
from isopix.data.load import load_dataset
from isopix.finetuning import evaluate
from isopix.finetuning.evaluate import ensemble_logits
from isopix.pretrained.model import PretrainedModel
from isopix.runs.load import find_checkpoint
from tests.unit.data.refusal import refusal

SETTINGS = ["depth=1", "width=16", "batch_size=16", "steps=40", "evaluate_every=20", "data.augment=none"]
SETTINGS += ["lr=0.03", "head_bias=true"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    for name, recipe in (("causal", "igpt.digits"), ("masked", "igpt.digits_bert")):
        isopix.finetune(recipe, *SETTINGS, from_scratch=True, out=folder / name, limit=150, device="cpu")
    return folder


@pytest.fixture(params=["causal", "masked"])
def model(request: pytest.FixtureRequest, runs: Path) -> PretrainedModel:
    return isopix.load(runs / request.param, device="cpu")


@pytest.fixture
def causal(runs: Path) -> PretrainedModel:
    return isopix.load(runs / "causal", device="cpu")


@pytest.fixture(scope="module")
def data() -> ImageDataset:
    return load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=150))


def test_probabilities_are_those_of_the_saved_weights_by_hand(
    runs: Path, causal: PretrainedModel, data: ImageDataset
) -> None:
    """The mean of the last layer's features times the matrix of the file, plus its biases."""
    found = find_checkpoint(runs / "causal/best")
    images, weights = data.test.images, found.tensors["classifier"]
    *_, last = found.network().eval().features(images)
    logits = last.detach().double().mean(1) @ weights["weight"].double().T + weights["bias"].double()
    expected = torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)
    assert causal.classes == tuple("0123456789")
    torch.testing.assert_close(causal.predict_proba(images).double(), expected, rtol=1e-4, atol=1e-6)
    assert causal.predict(images).tolist() == [str(each) for each in expected.argmax(1).tolist()]


def test_predictions_have_the_accuracy_of_evaluate(model: PretrainedModel, data: ImageDataset) -> None:
    """A masked model is evaluated on masked images by its own setting; so are its predictions."""
    test, masks_input = data.test, model.loaded.recipe.objective.masks_input
    truth = np.array(data.classes)[test.labels.numpy()]
    for masks in (None, 3) if masks_input else (None,):
        measured = isopix.evaluate(model, limit=150, mask_ensemble=masks)
        assert (measured.path, measured.mask_ensemble) == (None, int(masks_input) if masks is None else masks)
        accuracy = float((model.predict(test.images, mask_ensemble=masks) == truth).mean())
        assert accuracy == pytest.approx(measured.metrics.accuracy)
    whole = model.predict_proba(test.images, mask_ensemble=0)
    torch.testing.assert_close(model.class_logits(test.images).softmax(1).detach(), whole)
    assert torch.equal(whole, model.predict_proba(test.images)) != masks_input


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_has_the_most_likely_classes_of_each_file(
    causal: PretrainedModel, data: ImageDataset, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "VOTE_BATCH_SIZE", 2)
    images, files = data.test.images[:5], [tmp_path / f"photos/{number}.png" for number in range(7)]
    files[0].parent.mkdir()
    for file, pixels in zip([files[0], *files[3:]], images, strict=True):
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(file)
    for file in files[1:3]:  # not in one batch
        file.write_bytes(b"no image")
    out = tmp_path / f"predictions{suffix}"
    found = isopix.predict(causal, data=files[0].parent, out=out, top_k=3)
    table = pq.read_table(out) if suffix == ".parquet" else pyarrow.csv.read_csv(out)
    rows = [{name: None if each == "" else each for name, each in row.items()} for row in table.to_pylist()]
    assert [row["file"] for row in rows] == [str(each) for each in files]
    assert {name: [*each] for name, each in found.columns.items()}["problem"] == [r["problem"] for r in rows]
    for row in rows[1:3]:
        assert row.pop("problem").startswith("not a JPEG")
        assert {*row.values()} == {row["file"], None}
    probabilities = causal.predict_proba([files[0], *files[3:]]).double().numpy()
    for row, expected in zip([rows[0], *rows[3:]], probabilities, strict=True):
        best = np.argsort(-expected)[:3]
        assert [int(row[name]) for name in ("class", "class_2", "class_3")] == best.tolist()
        shares = [row["probability"], row["probability_2"], row["probability_3"]]
        np.testing.assert_allclose(shares, expected[best], rtol=1e-4)
    assert found.counts == Counter(str(row["class"]) for row in rows if row["class"] is not None)


def test_the_probabilities_of_several_masks_are_a_mean_of_probabilities(
    runs: Path, data: ImageDataset
) -> None:
    """And not those of the mean logits."""
    model, images = isopix.load(runs / "masked", device="cpu"), data.test.images
    each = ensemble_logits(model.loaded.finetuned(), images, masks=3, seed=4, precision="fp32").double()
    expected = sum(torch.exp(one) / torch.exp(one).sum(1, keepdim=True) for one in each) / 3
    found = model.predict_proba(images, mask_ensemble=3, seed=4).double()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
    assert (found - each.mean(0).softmax(1)).abs().max() > 1e-4


def test_a_classifier_that_is_saved_is_a_classifier(
    model: PretrainedModel, data: ImageDataset, tmp_path: Path
) -> None:
    model.save(tmp_path / "model")
    again, expected = isopix.load(tmp_path / "model", device="cpu"), model.predict_proba(data.test.images)
    assert again.classes == model.classes
    for other in (again, pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.predict_proba(data.test.images), expected)


def test_a_model_without_a_class_head_says_how_to_get_one(pristine: Path, data: ImageDataset) -> None:
    model = isopix.load(pristine / "ar", device="cpu")
    assert model.classes == ()
    for call in (model.predict, model.predict_proba, model.class_logits):
        assert refusal(call, data.test.images).startswith("this model is not fine-tuned on classes")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_of_another_type_classifies_nearly_as_before(
    causal: PretrainedModel, data: ImageDataset, dtype: torch.dtype
) -> None:
    images = data.test.images[:8]
    expected, found = causal.predict_proba(images), causal.to(dtype)
    assert found.class_logits(images).dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(found.predict_proba(images).float(), expected, rtol=0, atol=0.05)


def test_a_classifier_of_a_pool_of_cells_is_saved_and_evaluated(pristine: Path, tmp_path: Path) -> None:
    words = [*SETTINGS[2:3], *SETTINGS[5:7], "steps=4", "patience=null", "evaluate_every=2", "pool=grid4"]
    tuned = isopix.finetune(pristine / "ar", *words, out=tmp_path / "tuned", device="cpu").model
    assert tuned.loaded.recipe.finetune.pool == "grid4"
    assert tuned.class_head.weight.shape == (10, 16 * tuned.loaded.recipe.model.width)
    assert tuned.class_head.weight.any()
    assert 0 <= isopix.evaluate(tmp_path / "tuned", device="cpu").metrics.accuracy <= 1
