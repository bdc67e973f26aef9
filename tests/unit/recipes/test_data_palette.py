"""The palette of images that are given as codes is that of the network, unless settings say otherwise."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isopix.codecs.palette_file import PaletteFile, write_palette
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.config import to_dict
from isopix.data.dataset import load_dataset
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from isopix.runs.pretrain import train_recipe
from isopix.runs.start import prepare_finetune
from isopix.runs.training_log import RunObserver
from isopix.storage.log import read_log

SIDE, COLORS = 6, 27
COUNTS = {"tr": 40, "va": 10, "te": 10}


def write(folder: Path, levels: np.ndarray) -> dict[str, np.ndarray]:
    """Codes of random images, and their palette as OpenAI's, in [-1, 1]."""
    draw = np.random.default_rng(0)
    np.save(folder / "kmeans_centers.npy", (levels / 127.5 - 1).astype(np.float32))
    codes = {part: draw.integers(0, len(levels), (count, SIDE * SIDE)) for part, count in COUNTS.items()}
    for part, values in codes.items():
        np.save(folder / f"x_{part}X.npy", values)
        np.save(folder / f"x_{part}Y.npy", np.arange(len(values)) % 2)
    return codes


def resolved(how: str, source: Path, *words: str, recipe: str = "igpt.digits") -> Recipe:
    sides = [f"data.size={SIDE}", f"data.source={source}"]
    if how == "fine-tuned":
        return prepare_finetune(recipe, settings=[*sides, *words]).recipe
    return registry.resolve(recipe, assignments=[*sides, *words]).recipe


@pytest.fixture
def codes(tmp_path: Path) -> dict[str, np.ndarray]:
    axis = np.array([0.3, 128.4, 254.6])
    lattice = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    return write(tmp_path, lattice[np.random.default_rng(0).permutation(COLORS)])


HOWS = pytest.mark.parametrize("how", ["pre-trained", "fine-tuned"])


@HOWS
@pytest.mark.parametrize("source", [".", "x_trX.npy"])
def test_codes_of_the_network_are_those_of_the_files(
    tmp_path: Path, codes: dict[str, np.ndarray], how: str, source: str
) -> None:
    recipe = resolved(how, tmp_path / source)
    codec = recipe.model.codec
    assert isinstance(codec, PaletteSpec)
    assert (codec.num_colors, codec.palette_file) == (COLORS, str(tmp_path / "kmeans_centers.npy"))
    train = load_dataset(recipe.data, cache=tmp_path / "cache").train.images
    assert torch.equal(codec.fit(train, recipe.grid, 0).encode(train)[..., 0], torch.from_numpy(codes["tr"]))


@HOWS
@pytest.mark.parametrize("given", ["model.codec.num_colors=16", "palette_file=null"])
@pytest.mark.usefixtures("codes")
def test_other_colors_can_be_given(tmp_path: Path, how: str, given: str) -> None:
    codec = resolved(how, tmp_path, given).model.codec
    assert isinstance(codec, PaletteSpec)
    assert codec.palette_file is None


@pytest.mark.usefixtures("codes")
def test_other_codecs_and_other_data_are_as_ever_and_the_origin_is_shown(tmp_path: Path) -> None:
    patches = registry.resolve("vit.tiny", assignments=["patch_size=2"]).recipe
    assert (
        resolved("pre-trained", tmp_path, "patch_size=2", recipe="vit.tiny").model.codec
        == patches.model.codec
    )
    assert registry.resolve("igpt.digits").recipe.model.codec == registry.find("igpt.digits").model.codec
    words = [f"data.size={SIDE}", f"data.source={tmp_path}"]
    origins = registry.resolve("igpt.digits", assignments=words).origins
    assert origins["model.codec.palette_file"] == origins["model.codec.num_colors"] == "palette of the data"


def test_colors_that_are_encoded_as_others_are_counted_in_a_note(tmp_path: Path) -> None:
    """The first three round to (10, 20, 30), to which the first is nearest."""
    write(tmp_path, np.array([[10.1, 20, 30], [10.4, 20, 30], [10.45, 20.2, 30.3], [200, 100, 50]]))
    recipe = resolved("pre-trained", tmp_path, "depth=1", "width=8", "heads=2", "steps=1")
    train_recipe(recipe, tmp_path / "run", device=torch.device("cpu"), observer=RunObserver())
    notes = [each["text"] for each in read_log(tmp_path / "run/log.jsonl") if each["kind"] == "note"]
    text = "2 of 4 colors of the palette, once rounded to whole levels, are encoded as another color"
    assert notes == [f"{text} that is equal or nearer"]


def test_the_number_of_colors_is_that_of_the_palette_file(tmp_path: Path) -> None:
    path = tmp_path / "five.npz"
    write_palette(path, PaletteFile(torch.arange(15.0).reshape(5, 3), "a test"))
    resolved = registry.resolve("igpt.tiny", options={"codec.palette_file": str(path)})
    codec = to_dict(resolved.recipe.model.codec)
    assert (codec["num_colors"], codec["palette_file"]) == (5, str(path))
    origins = resolved.origins
    assert origins["model.codec.num_colors"] == "palette file"
    assert origins["model.codec.palette_file"] == "option"
    kept = registry.resolve("igpt.tiny", assignments=[f"palette_file={path}", "num_colors=7"])
    assert to_dict(kept.recipe.model.codec)["num_colors"] == 7
    with pytest.raises(ValueError, match=r"palette file .*missing\.npz does not exist"):
        registry.resolve("igpt.tiny", assignments=["palette_file=missing.npz"])
