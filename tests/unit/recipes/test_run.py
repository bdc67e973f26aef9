from pathlib import Path

import pytest
import torch

from isopix.codecs import kmeans
from isopix.data.images import load as load_images
from isopix.recipes import catalogue
from isopix.recipes.load import load
from isopix.recipes.run import Watch, make_codec, start
from isopix.train.evaluate import held_out_loss
from isopix.train.learners import Pretraining

CPU = torch.device("cpu")
SMALL = ["depth=1", "width=16", "steps=6", "batch=8", "evaluate_images=30", "test_images=25"]
SMALL += ["evaluate_every=3", "data.limit=50", "codec.colours=9", "seed=4"]


@pytest.mark.parametrize("name", ["igpt.digits", "igpt.digits_bert"])
def test_the_log_holds_the_loss_of_validation_and_of_test_images(tmp_path: Path, name: str) -> None:
    recipe = catalogue.resolve(name, assignments=SMALL).recipe
    records = []
    start(recipe, tmp_path / "run", device=CPU, watch=Watch(record=records.append))
    learner = Pretraining(load(tmp_path / "run", device=CPU).network)
    data = load_images(recipe.data, seed=recipe.seed)
    images = {"validation": data.validation.images[:30], "test": data.test.images[:25]}
    losses = {
        split: held_out_loss(learner, each, seed=recipe.seed, precision=recipe.precision)
        for split, each in images.items()
    }
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    assert {record["split"]: record["loss_nats"] for record in evaluations} == losses
    assert {record["split"]: record["images"] for record in evaluations} == {"validation": 30, "test": 25}
    assert [record["step"] for record in evaluations] == [0, 3, 6, 6]
    assert losses["validation"] != losses["test"]


def test_the_palette_is_fitted_to_training_images_with_the_recipes_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = catalogue.resolve("igpt.digits", assignments=SMALL).recipe
    data = load_images(recipe.data, seed=recipe.seed)
    calls = []
    real = kmeans.fit

    def fit(images, colours, *, seed):
        calls.append((images, colours, seed))
        return real(images, colours, seed=seed)

    monkeypatch.setattr(kmeans, "fit", fit)
    codec = make_codec(recipe, data)
    [(images, colours, seed)] = calls
    assert torch.equal(images, data.train.images)
    assert (colours, seed, codec.codes * codec.levels) == (9, 4, 9)
