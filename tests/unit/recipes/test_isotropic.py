"""Every cell of the study of inductive biases against its paper, or what was chosen where it is silent."""

import math

import pytest

from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.stems.pixels import FourierPixelEmbeddingSpec, LinearPixelEmbeddingSpec, TokenEmbeddingSpec
from isopix.recipes import isotropic, registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe

CELLS = {
    f"{block}-{encoding}-{depth}": (block, encoding, depth) for block, encoding, depth in isotropic.CELLS
}
WIDTH, POSITIONS = 128, 1024
TRANSFORMERS = ("transformer-1", "transformer-4", "transformer-1-nopos")
PARAMETERS = {"conv": 295_680, "mixer": 2_132_736, **dict.fromkeys(TRANSFORMERS, 99_584)}
FLOPS = {"conv": 589_824, "mixer": 589_824, **dict.fromkeys(TRANSFORMERS, 720_896)}
# Three tables; or a matrix over 3 x 128 features, or over 3 numbers, with a bias for each channel.
STEMS = {
    "pix2vec": 3 * 256 * WIDTH,
    "fourier": 3 * 128 * WIDTH + 3 * WIDTH,
    "continuous": 3 * WIDTH + 3 * WIDTH,
}
KINDS = {
    "conv": ConvolutionSpec,
    "mixer": MixerSpec,
    **dict.fromkeys(TRANSFORMERS, TransformerSpec),
}
ENCODINGS = {
    "pix2vec": TokenEmbeddingSpec,
    "fourier": FourierPixelEmbeddingSpec,
    "continuous": LinearPixelEmbeddingSpec,
}
paper = pytest.mark.parametrize("cell", CELLS)


def find(cell: str, scale: str = "") -> Recipe:
    return registry.find(f"isotropic.{scale}{cell}")


@paper
@pytest.mark.parametrize("scale", ["", "tiny-", "translated_digits-"])
def test_a_cell_is_what_its_name_says(cell: str, scale: str) -> None:
    recipe, (block, encoding, depth) = find(cell, scale), CELLS[cell]
    assert recipe.name == f"isotropic.{scale}{cell}"
    assert isinstance(recipe.model.block, KINDS[block])
    assert isinstance(recipe.model.stem, ENCODINGS[encoding])
    assert recipe.model.depth == depth
    if block.startswith("transformer"):
        assert recipe.model.block.heads == int(block.split("-")[1])


@paper
def test_parameters_are_counted_to_the_last_one(cell: str) -> None:
    """The blocks', the encoding's, a last norm, a head without a bias, and a transformer's positions."""
    block, encoding, depth = CELLS[cell]
    places = POSITIONS * WIDTH if block in ("transformer-1", "transformer-4") else 0
    rest = STEMS[encoding] + 2 * WIDTH + WIDTH * 768 + places
    assert recipe_cost(find(cell)).parameters == depth * PARAMETERS[block] + rest


@paper
def test_flops_are_of_the_blocks_and_of_the_hidden_positions(cell: str) -> None:
    block, _, depth = CELLS[cell]
    head = 2 * WIDTH * 768 * round(0.15 * POSITIONS)
    assert recipe_cost(find(cell)).forward_flops == depth * POSITIONS * FLOPS[block] + head


@paper
def test_training_is_the_papers(cell: str) -> None:
    """Adam; one epoch of warm-up to 0.01, 50 of cosine; batches of 128 of the 45,000 left of CIFAR-10."""
    recipe = find(cell)
    epoch = math.ceil(45_000 / recipe.train.batch_size)
    assert (recipe.train.batch_size, recipe.train.steps) == (128, 51 * epoch)
    assert (recipe.train.optimizer.kind, recipe.train.optimizer.lr) == ("adam", 0.01)
    schedule = recipe.train.schedule
    assert schedule.factor(epoch - 1, steps=recipe.train.steps, epoch=epoch) == 1.0
    assert schedule.factor(0, steps=recipe.train.steps, epoch=epoch) == 1 / epoch
    assert schedule.factor(26 * epoch, steps=recipe.train.steps, epoch=epoch) == pytest.approx(0.5)
    assert (recipe.data.source, recipe.data.rows, recipe.data.cols) == ("cifar10", 32, 32)
    assert (recipe.objective.kind, recipe.objective.mask.kind) == ("masked", "bernoulli")
    assert recipe.objective.mask.ratio == 0.15


@pytest.mark.parametrize(
    ("word", "cell", "parameters"),
    [
        ("block.units=128", "mixer-pix2vec-1", 296_832),
        ("block.mlp.expansion=4", "transformer-1-pix2vec-1", 198_272),
    ],
)
def test_other_widths_are_settings(word: str, cell: str, parameters: int) -> None:
    before = recipe_cost(find(cell)).parameters - PARAMETERS[CELLS[cell][0]]
    changed = registry.resolve(f"isotropic.{cell}", assignments=[word]).recipe
    assert recipe_cost(changed).parameters == before + parameters


def test_a_family_is_listed_in_one_line_that_names_its_parts() -> None:
    listed = registry.listing()
    assert len(listed) == len(registry.SINGLE) + len(registry.FAMILIES)
    words = listed["isotropic.tiny-BLOCK-ENCODING-DEPTH"]
    assert all(part in words for part in (*isotropic.BLOCKS, *isotropic.ENCODINGS))
    assert all(str(depth) in words for depth in isotropic.DEPTHS)
