"""A run evaluates the images that it records, with the masks and learning rates of each step."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isopix.codecs import kmeans, palette_spec
from isopix.core.random import generator
from isopix.core.types import Images, Labels
from isopix.data.dataset import load_dataset
from isopix.objectives.base import TrainingBatch
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.load import load_run
from isopix.runs.pretrain import fit_codec, train_recipe
from isopix.runs.resume import resume_run
from isopix.runs.training_log import RunObserver
from isopix.storage import log
from isopix.train.baselines import measure_baselines
from isopix.train.evaluator import evaluate_split
from isopix.train.tasks import PretrainTask

CPU = torch.device("cpu")
WORDS = ["depth=1", "width=16", "steps=8", "batch_size=16", "log_every=1", "evaluate_images=40"]
WORDS += ["num_test_images=50"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    recipe = registry.resolve("igpt.digits_bert", assignments=WORDS).recipe
    out = tmp_path_factory.mktemp("run") / "run"
    train_recipe(recipe, out, device=CPU, observer=RunObserver())
    return recipe, out


@pytest.mark.parametrize(("split", "count"), [("validation", 40), ("test", 50)])
def test_each_loss_is_that_of_the_split_it_names(run: tuple[Recipe, Path], split: str, count: int) -> None:
    recipe, out = run
    data = load_dataset(recipe.data)
    task = PretrainTask(load_run(out, device=CPU).model)
    losses = {
        name: evaluate_split(
            task, getattr(data, name).sample(count), seed=recipe.train.seed, precision="fp32"
        )["loss_nats"]
        for name in ("train", "validation", "test")
    }
    last = [each for each in log.read_log(out / "log.jsonl") if each.get("split") == split][-1]
    assert last["images"] == count
    assert last["loss_nats"] == pytest.approx(losses[split], rel=1e-6)
    assert len({round(loss, 5) for loss in losses.values()}) == 3


def test_a_resumed_run_draws_the_masks_of_the_steps_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order."""
    recipe, masks = registry.resolve("igpt.digits_bert", assignments=WORDS).recipe, []
    make_batch = PretrainTask.make_batch

    def spy(
        self: PretrainTask, images: Images, labels: Labels | None, draw: torch.Generator
    ) -> TrainingBatch:
        batch = make_batch(self, images, labels, draw)
        masks.append(batch.mask)
        return batch

    monkeypatch.setattr(PretrainTask, "make_batch", spy)
    asked = iter([False, False, True])
    train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver(stop=lambda: next(asked)))
    resume_run(tmp_path / "run", device=CPU, observer=RunObserver())
    drawn = [
        recipe.objective.mask.sample(16, recipe.grid, 1, generator(0, "problem", step)) for step in range(8)
    ]
    assert len(masks) == len(drawn)
    assert all(torch.equal(mask, each) for mask, each in zip(masks, drawn, strict=True))


def test_a_run_with_a_palette_file_records_where_its_colors_come_from(tmp_path: Path) -> None:
    file = tmp_path / "grays.npz"
    colors = torch.linspace(0, 255, 17).round()[:, None].expand(17, 3).contiguous()
    palette_spec.write_palette(file, palette_spec.PaletteFile(colors, "seventeen grays"))
    recipe = registry.resolve(
        "igpt.digits", assignments=[*WORDS, f"codec.palette_file={file}", "steps=1"]
    ).recipe
    train_recipe(recipe, tmp_path / "run", device=CPU, observer=RunObserver())
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["codec"]["palette"] == {"file": str(file), "source": "seventeen grays"}


def test_the_palette_is_fitted_to_training_images_with_the_recipes_seed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recipe = registry.resolve("igpt.digits", assignments=["codec.num_colors=9", "seed=4", "depth=1"]).recipe
    data = load_dataset(recipe.data)
    calls, real = [], kmeans.fit_palette

    def fit(images, colors, *, seed):
        calls.append((images, colors, seed))
        return real(images, colors, seed=seed)

    monkeypatch.setattr(kmeans, "fit_palette", fit)
    train_recipe(
        recipe, tmp_path / "run", device=torch.device("cpu"), observer=RunObserver(stop=lambda: True)
    )
    [(images, colors, seed)] = calls
    assert torch.equal(images, data.train.images)
    assert (colors, seed) == (9, 4)


def test_baselines_are_logged_once_on_the_images_of_the_losses(tmp_path: Path) -> None:
    recipe, folder = registry.resolve("igpt.digits_bert", assignments=WORDS).recipe, tmp_path / "run"
    calls = iter([False, False, True])
    train_recipe(recipe, folder, device=CPU, observer=RunObserver(stop=lambda: next(calls)))
    resume_run(folder, device=CPU, observer=RunObserver())
    logged = [each for each in log.read_log(folder / "log.jsonl") if each["kind"] == "baselines"]
    assert [(each["held_out"], each["images"], each["step"]) for each in logged] == [
        ("validation", 40, 0),
        ("test", 50, 0),
    ]
    data, loaded = load_dataset(recipe.data), load_run(folder, device=CPU)
    held_out = {"validation": data.validation.sample(40), "test": data.test.sample(50)}
    found = measure_baselines(loaded.model, recipe.model.head, data.train, held_out, seed=recipe.train.seed)
    assert [each["nats"] for each in logged] == [found["validation"]["nats"], found["test"]["nats"]]
    assert list(loaded.modes) == logged[1]["modes"]


@pytest.fixture
def fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of colors that are fitted from now on, with an empty cache."""
    fitted, fit = list[int](), kmeans.fit_palette

    def counted(images: object, num_colors: int, *, seed: int) -> object:
        fitted.append(num_colors)
        return fit(images, num_colors, seed=seed)

    monkeypatch.setattr(kmeans, "fit_palette", counted)
    monkeypatch.setenv("ISOPIX_CACHE", str(tmp_path / "cache"))
    return fitted


def test_the_second_run_reads_the_codec_of_the_first(fits: list[int]) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    first, second = (fit_codec(recipe, data) for _ in range(2))
    assert fits == [17]
    assert torch.equal(first.colors, second.colors)
    assert first.fingerprint() == second.fingerprint()


def test_whatever_decides_the_palette_is_part_of_its_name(fits: list[int]) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    fit_codec(recipe, data)
    fit_codec(recipe.updated(seed=1), data)
    fit_codec(recipe.updated(codec=replace(recipe.model.codec, num_colors=16)), data)
    fit_codec(recipe, load_dataset(replace(recipe.data, limit=100)))
    fit_codec(recipe, load_dataset(replace(recipe.data, seed=1)))
    assert fits == [17, 17, 16, 17, 17]


@pytest.mark.parametrize("damage", [b"", b"{}", None, "one bit"])
def test_a_file_that_cannot_be_read_is_written_again(
    fits: list[int], tmp_path: Path, damage: bytes | str | None
) -> None:
    recipe = registry.find("igpt.digits")
    data = load_dataset(recipe.data)
    right = fit_codec(recipe, data)
    [path] = (tmp_path / "cache/codecs").glob("*/codec.safetensors")
    data_bytes = path.read_bytes()
    flipped = data_bytes[:-2] + bytes([data_bytes[-2] ^ 1]) + data_bytes[-1:]
    path.write_bytes({None: data_bytes[:-1], "one bit": flipped}.get(damage, damage))
    assert [fit_codec(recipe, data).fingerprint() for _ in range(2)] == [right.fingerprint()] * 2
    assert fits == [17, 17]
