"""A run grades the images that it says it grades, and its masks and rates are those of each step."""

from pathlib import Path

import pytest
import torch

from isopix.codecs import kmeans
from isopix.core.random import generator
from isopix.core.types import Images, Labels
from isopix.data.images import load as load_images
from isopix.objectives.base import Problem
from isopix.recipes import catalogue
from isopix.runs.load import load
from isopix.recipes.recipe import Recipe
from isopix.runs.run import Watch, make_codec, resume, start
from isopix.train import log
from isopix.train.evaluate import held_out_loss
from isopix.train.learners import Pretraining

CPU = torch.device("cpu")
WORDS = ["depth=1", "width=16", "steps=8", "batch=16", "log_every=1", "evaluate_images=40", "test_images=50"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    recipe = catalogue.resolve("igpt.digits_bert", assignments=WORDS).recipe
    out = tmp_path_factory.mktemp("run") / "run"
    start(recipe, out, device=CPU, watch=Watch())
    return recipe, out


@pytest.mark.parametrize(("split", "count"), [("validation", 40), ("test", 50)])
def test_each_loss_is_of_the_split_that_it_names(run: tuple[Recipe, Path], split: str, count: int) -> None:
    recipe, out = run
    data, learner = load_images(recipe.data, seed=recipe.seed), Pretraining(load(out, device=CPU).network)
    losses = {
        name: held_out_loss(learner, getattr(data, name).images[:count], seed=recipe.seed, precision="fp32")
        for name in ("train", "validation", "test")
    }
    last = [each for each in log.read(out / "log.jsonl") if each.get("split") == split][-1]
    assert last["images"] == count
    assert last["loss_nats"] == pytest.approx(losses[split], rel=1e-6)
    assert len({round(loss, 5) for loss in losses.values()}) == 3


def test_the_rate_of_each_step_is_the_schedules(run: tuple[Recipe, Path]) -> None:
    recipe, out = run
    epoch = -(-len(load_images(recipe.data, seed=recipe.seed).train) // recipe.batch)
    rates = [each["learning_rate"] for each in log.read(out / "log.jsonl") if each["kind"] == "train"]
    factors = [recipe.schedule.factor(step, steps=recipe.steps, epoch=epoch) for step in range(recipe.steps)]
    assert rates == pytest.approx([recipe.optimiser.learning_rate * factor for factor in factors])


def test_every_step_has_masks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, posed = catalogue.resolve("igpt.digits_bert", assignments=WORDS).recipe, []
    prepare = Pretraining.prepare

    def spy(self: Pretraining, images: Images, labels: Labels | None, draw: torch.Generator) -> Problem:
        posed.append(prepare(self, images, labels, draw))
        return posed[-1]

    monkeypatch.setattr(Pretraining, "prepare", spy)
    start(recipe, tmp_path / "run", device=CPU, watch=Watch())
    masks = [problem.hidden for problem in posed if len(problem.images) == recipe.batch]
    drawn = [recipe.objective.mask.draw(16, recipe.grid, generator(0, "problem", step)) for step in range(8)]
    assert all(any(torch.equal(mask, each) for each in masks) for mask in drawn)


def test_seconds_go_on_after_a_stop(tmp_path: Path) -> None:
    recipe = catalogue.resolve("igpt.digits", assignments=WORDS).recipe
    calls = iter([False, False, True])
    start(recipe, tmp_path / "run", device=CPU, watch=Watch(stop=lambda: next(calls)))
    resume(tmp_path / "run", device=CPU, watch=Watch())
    seconds = [
        each["seconds"] for each in log.read(tmp_path / "run" / "log.jsonl") if each["kind"] == "train"
    ]
    assert len(seconds) == 8
    assert seconds == sorted(seconds)


def test_the_palette_is_fitted_to_training_images_with_the_recipes_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = catalogue.resolve("igpt.digits", assignments=["codec.colours=9", "seed=4"]).recipe
    data = load_images(recipe.data, seed=recipe.seed)
    calls, real = [], kmeans.fit

    def fit(images, colours, *, seed):
        calls.append((images, colours, seed))
        return real(images, colours, seed=seed)

    monkeypatch.setattr(kmeans, "fit", fit)
    make_codec(recipe, data)
    [(images, colours, seed)] = calls
    assert torch.equal(images, data.train.images)
    assert (colours, seed) == (9, 4)
