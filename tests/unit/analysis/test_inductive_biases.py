"""A convolution has a receptive field of two positions per block and is translation-equivariant; attention is
permutation-equivariant; causal networks spread changes forward only.
"""

import numpy as np
import pytest
import torch

from isopix.analysis import inductive_biases
from isopix.codecs.palette_spec import PaletteSpec
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.data.dataset import DataConfig
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import LayerNormSpec
from isopix.model.network import Network
from isopix.model.positions import LearnedPositionEmbeddingSpec, NoPositionEmbeddingSpec
from isopix.model.stems.pixels import TokenEmbeddingSpec
from isopix.objectives.objectives import Autoregressive
from isopix.recipes import registry
from isopix.recipes.isotropic import BLOCKS
from isopix.recipes.recipe import Recipe
from tests.laws.cases import busy

pytestmark = pytest.mark.usefixtures("_small_batches")
GRID = Grid(11, 12)
CONV = registry.find("isotropic.tiny-conv-fourier-3").updated(
    data=DataConfig(rows=GRID.rows, cols=GRID.cols), depth=2, width=8
)
NO_POSITIONS = CONV.updated(block=BLOCKS["transformer-4"], positions=NoPositionEmbeddingSpec())
WITH_POSITIONS = NO_POSITIONS.updated(positions=LearnedPositionEmbeddingSpec())
MIXER = CONV.updated(block=MixerSpec())
IMAGE_GPT = WITH_POSITIONS.updated(codec=PaletteSpec(num_colors=32), stem=TokenEmbeddingSpec())


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductive_biases, "BATCH_SIZE", 2)


def network(recipe: Recipe) -> Network:
    return busy(recipe).double()


def images(count: int = 5) -> Images:
    draw = generator(0, "images")
    return torch.randint(0, 256, (count, 3, *GRID), dtype=torch.uint8, generator=draw)


def fields(recipe: Recipe) -> list[inductive_biases.ReceptiveField]:
    return inductive_biases.receptive_field(network(recipe), images(), generator(0, "places"))


def test_the_receptive_field_of_a_convolution_is_two_positions_per_block() -> None:
    for layer, found in enumerate(fields(CONV)):
        assert len(found.profile) == 12
        assert (found.profile > 0).tolist() == [distance <= 2 * layer for distance in range(12)]
        assert found.profile.sum() == pytest.approx(1)
        assert found.radius_95 <= 2 * layer


def before(found: inductive_biases.ReceptiveField) -> float:
    """The fraction at positions before the changed one in raster order."""
    return found.fractions.ravel()[: found.fractions.size // 2].sum()


@pytest.mark.parametrize(
    "block", [ConvolutionSpec(), MixerSpec(), TransformerSpec(heads=2, norm=LayerNormSpec())]
)
def test_causal_networks_do_not_spread_changes_backward(block) -> None:
    causal = CONV.updated(block=block, objective=Autoregressive())
    assert list(map(before, fields(causal))) == [0, 0, 0]
    assert fields(causal)[0].fractions[GRID.rows - 1, GRID.cols - 1] == 0  # nor at the changed pixel
    assert before(fields(CONV.updated(block=block))[2]) > 0.1


def test_a_receptive_field_equals_an_explicit_loop() -> None:
    net, one = network(MIXER), images(1)
    place = int(torch.randint(GRID.positions, (1,), generator=generator(0, "places")))
    row, col = divmod(place, GRID.cols)
    changed = one.clone()
    changed[0, :, row, col] ^= 128
    before, after = (list(net.features(each))[1][0].detach().numpy() for each in (one, changed))
    sizes = np.linalg.norm(after - before, axis=1)
    found = inductive_biases.receptive_field(net, one, generator(0, "places"))[1]
    for other, size in enumerate(sizes):
        down, right = other // GRID.cols - row, other % GRID.cols - col
        share = found.fractions[GRID.rows - 1 + down, GRID.cols - 1 + right]
        assert share == pytest.approx(size / sizes.sum())
    places = (divmod(other, GRID.cols) for other in range(GRID.positions))
    distances = [max(abs(down - row), abs(right - col)) for down, right in places]
    assert found.mean_distance == pytest.approx(np.average(distances, weights=sizes))


def test_a_uniform_receptive_field_is_that_of_all_pairs_of_positions() -> None:
    places = [divmod(place, 4) for place in range(12)]
    distances = [max(abs(a - c), abs(b - d)) for a, b in places for c, d in places]
    found = inductive_biases.uniform_receptive_field(Grid(3, 4))
    assert found.mean_distance == pytest.approx(np.mean(distances))
    assert found.profile == pytest.approx(np.bincount(distances) / len(distances))
    assert found.radius_95 == np.quantile(distances, 0.95, method="inverted_cdf")


def test_convolutions_are_translation_equivariant_away_from_borders() -> None:
    net = network(CONV)
    assert inductive_biases.translation_error(net, images(), shift=(2, 1), margin=4) == [0, 0, 0]
    near = inductive_biases.translation_error(net, images(), shift=(2, 1), margin=1)
    assert near[:1] == [0]
    assert near[2] > 0.01  # the border is within the receptive field


def test_a_transformer_without_positions_is_equivariant() -> None:
    for measured in (
        inductive_biases.translation_error(network(NO_POSITIONS), images()),
        inductive_biases.permutation_error(network(NO_POSITIONS), images(), generator(0, "orders")),
    ):
        assert measured == pytest.approx([0, 0, 0], abs=1e-12)


@pytest.mark.parametrize("recipe", [WITH_POSITIONS, IMAGE_GPT, MIXER], ids=["learned", "image-gpt", "mixer"])
def test_a_network_with_positions_is_not_equivariant(recipe: Recipe) -> None:
    translation, permutation = (
        inductive_biases.translation_error(network(recipe), images()),
        inductive_biases.permutation_error(network(recipe), images(), generator(0, "orders")),
    )
    assert translation[2] > 0.05
    assert permutation[2] > 0.05
    assert (translation[0] == permutation[0] == 0) == (recipe is MIXER)


def test_a_relative_error_is_normalized_by_all_pairs() -> None:
    one, other = torch.randn(2, 30, 4, generator=generator(0, "vectors"), dtype=torch.float64)
    apart = (one - other).square().sum(1).mean()
    random = torch.cdist(one, other).square().mean()
    found = inductive_biases.RelativeError()
    for part in (slice(0, 11), slice(11, 30)):
        found.add(one[part], other[part])
    assert found.value == pytest.approx(float((apart / random).sqrt()))
    assert 0.9 < found.value < 1.1  # the vectors are independent
