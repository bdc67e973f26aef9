"""Models that come with the package: what they are, and how their names are used."""

import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import isopix
from isopix.data.load import load_dataset
from isopix.recipes import registry
from isopix.runs.load import COPIES, load_run, saved_recipe, shipped_models
from isopix.runs.start import prepare_finetune, prepare_pretrain
from tests.trained import CPU

MODELS = shipped_models()
NAME = "igpt.digits-trained"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_recorded_loss_is_that_of_the_weights() -> None:
    """By a sum over the logits, on the images that the dataset holds out."""
    model = isopix.list_models().models[NAME]
    loaded = load_run(MODELS[NAME], device=CPU)
    network = loaded.network.eval()
    images = load_dataset(loaded.recipe.data).test.images
    assert len(images) == model.test_images == 180
    with torch.inference_mode():
        codes = network.codec.encode(torch.as_tensor(images))
        log_probs = F.log_softmax(network(codes, None).double().flatten(1, -2), -1)
    nats = -log_probs.gather(-1, codes.flatten(1)[..., None]).mean()
    assert float(nats) == pytest.approx(model.test_loss, abs=1e-5)
    assert model.best_baseline[0] == "top neighbor"


@pytest.mark.parametrize("name", MODELS)
def test_files_are_small_and_name_no_folder_of_their_authors(name: str) -> None:
    files = [path for path in MODELS[name].rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5e6
    assert not list(MODELS[name].glob("checkpoints/*/optimizer.safetensors"))
    for path in files:
        if path.suffix in (".json", ".jsonl", ".md"):
            assert not re.search(r"(?<![\w.:/])/(?:home|root|tmp|work|Users|mnt)/", path.read_text()), path


def test_a_name_is_loaded_from_the_package_and_nothing_is_written(tmp_path: Path) -> None:
    samples = isopix.load(NAME, device="cpu").sample(2, seed=1)
    assert samples.shape == (2, 3, 8, 8)
    assert not list(tmp_path.iterdir())


def test_what_is_made_with_a_model_is_in_a_copy(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match="cannot sample images; try isopix complete"):
        isopix.sample("igpt.tiny_bert-cifar10", device="cpu")
    assert not COPIES.exists()  # nothing is made
    first = isopix.sample(NAME, count=1, device="cpu")
    assert first.path.parent == COPIES / NAME / "samples"
    assert [each.message for each in caplog.records if "comes with isopix" in each.message]
    caplog.clear()
    second = isopix.sample(NAME, count=1, seed=3, device="cpu")
    assert second.path.parent == first.path.parent
    assert not [each.message for each in caplog.records if "comes with isopix" in each.message]
    assert not list(COPIES.glob(".*"))


def test_another_run_where_the_copy_would_be_is_not_taken_for_it() -> None:
    copy = COPIES / NAME
    isopix.pretrain("igpt.digits", "steps=1", out=copy, limit=60, device="cpu")
    with pytest.raises(ValueError, match=f"runs/{NAME} is another run than the model {NAME}"):
        isopix.sample(NAME, count=1, device="cpu")


def test_a_model_has_another_name_than_every_recipe() -> None:
    assert not MODELS.keys() & registry.RECIPES.keys()


def test_where_weights_are_needed_a_recipe_is_refused_and_its_model_named() -> None:
    for call in (isopix.load, lambda name: prepare_pretrain(None, weights=name)):
        with pytest.raises(ValueError, match=f"without weights; its trained model is {NAME}; to train"):
            call("igpt.digits")


def test_fine_tuning_starts_from_a_model_or_from_scratch_as_it_is_told() -> None:
    with pytest.raises(ValueError, match=f"its trained model is {NAME}; give from_scratch to train it"):
        prepare_finetune("igpt.digits")
    assert prepare_finetune("igpt.digits", from_scratch=True).run is None
    with pytest.raises(ValueError, match="is a recipe; give from_scratch to train it"):
        prepare_finetune("igpt.digits_bert")
    tuned = prepare_finetune(NAME)
    assert tuned.provenance == {"pretrained": {"run": str(MODELS[NAME]), "step": 400}}
    with pytest.raises(ValueError, match=f"pretrain --from {NAME} --out OUT"):
        prepare_pretrain(NAME)
    assert not COPIES.exists()


def test_what_starts_from_a_model_computes_as_this_machine_does() -> None:
    """The model was trained in bf16, compiled; here there may be neither instructions nor a compiler."""
    name, data = "igpt.tiny-cifar10", ("data.source=digits",)
    assert saved_recipe(MODELS[name]).train.compile
    for start in (prepare_pretrain(None, data, weights=Path(name)), prepare_finetune(name, data)):
        assert (start.recipe.train.compile, start.recipe.train.precision) == (None, None)
    again = prepare_pretrain(None, (*data, "compile=true", "precision=bf16"), weights=Path(name))
    assert (again.recipe.train.compile, again.recipe.train.precision) == (True, "bf16")
