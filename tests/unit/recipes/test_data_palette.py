"""The palette of images that are given as codes is that of the network, unless settings say otherwise."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs.palette_spec import PaletteFile, PaletteSpec, write_palette
from isopix.data.dataset import load_dataset
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import prepare_finetune
from isopix.runs.training_log import RunObserver
from isopix.storage.log import read_log

SIDE, COLORS = 6, 27


def write(folder: Path, levels: np.ndarray) -> np.ndarray:
    """Write codes of random images, and their palette as OpenAI's, in [-1, 1]; return those of training."""
    draw = np.random.default_rng(0)
    np.save(folder / "kmeans_centers.npy", (levels / 127.5 - 1).astype(np.float32))
    codes = [draw.integers(0, len(levels), (count, SIDE * SIDE)) for count in (40, 10, 10)]
    for part, values in zip(("tr", "va", "te"), codes, strict=True):
        np.save(folder / f"x_{part}X.npy", values)
        np.save(folder / f"x_{part}Y.npy", np.arange(len(values)) % 2)
    return codes[0]


def resolved(how: str, source: Path, *words: str) -> Recipe:
    given = [f"data.size={SIDE}", f"data.source={source}", *words]
    if how == "fine-tuned":
        return prepare_finetune("igpt.digits", given).recipe
    return registry.resolve("igpt.digits", assignments=given).recipe


@pytest.fixture
def codes(tmp_path: Path) -> np.ndarray:
    axis = np.array([0.3, 128.4, 254.6])
    lattice = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    return write(tmp_path, lattice[np.random.default_rng(0).permutation(COLORS)])


@pytest.mark.parametrize("how", ["pre-trained", "fine-tuned"])
@pytest.mark.parametrize("source", [".", "x_trX.npy"])
def test_codes_of_the_network_are_those_of_the_files(
    tmp_path: Path, codes: np.ndarray, how: str, source: str
) -> None:
    recipe = resolved(how, tmp_path / source)
    codec = recipe.model.codec
    assert codec == PaletteSpec(num_colors=COLORS, palette_file=str(tmp_path / "kmeans_centers.npy"))
    train = load_dataset(recipe.data, cache=tmp_path / "cache").train.images
    assert torch.equal(codec.fit(train, recipe.grid, 0).encode(train)[..., 0], torch.from_numpy(codes))
    for given in ("model.codec.num_colors=16", "palette_file=null"):
        assert resolved(how, tmp_path / source, given).model.codec.palette_file is None


def test_colors_that_are_encoded_as_others_are_counted_in_a_note(tmp_path: Path) -> None:
    """The first three round to (10, 20, 30), to which the first is nearest."""
    write(tmp_path, np.array([[10.1, 20, 30], [10.4, 20, 30], [10.45, 20.2, 30.3], [200, 100, 50]]))
    recipe = resolved("pre-trained", tmp_path, "depth=1", "width=8", "heads=2", "steps=1")
    train_recipe(recipe, tmp_path / "run", device=torch.device("cpu"), observer=RunObserver())
    notes = [each["text"] for each in read_log(tmp_path / "run/log.jsonl") if each["kind"] == "note"]
    text = "2 of 4 colors of the palette, once rounded to whole levels, are encoded as another color"
    assert notes == [f"{text} that is equal or nearer"]


@pytest.mark.usefixtures("codes")
def test_the_palette_and_its_number_of_colors_say_where_they_come_from(tmp_path: Path) -> None:
    words = [f"data.size={SIDE}", f"data.source={tmp_path}"]
    origins = registry.resolve("igpt.digits", assignments=words).origins
    assert origins["model.codec.palette_file"] == origins["model.codec.num_colors"] == "palette of the data"
    path = tmp_path / "five.npz"
    write_palette(path, PaletteFile(torch.arange(15.0).reshape(5, 3), "a test"))
    found = registry.resolve("igpt.tiny", options={"codec.palette_file": str(path)})
    assert found.recipe.model.codec == PaletteSpec(num_colors=5, palette_file=str(path))
    assert found.origins["model.codec.num_colors"] == "palette file"
    assert found.origins["model.codec.palette_file"] == "option"
    kept = registry.resolve("igpt.tiny", assignments=[f"palette_file={path}", "num_colors=7"])
    assert kept.recipe.model.codec.num_colors == 7
