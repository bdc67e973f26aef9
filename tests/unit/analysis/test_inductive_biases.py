"""A convolution reaches two pixels a block and moves with its image; attention sees no order; causal
networks reach forwards alone.
"""

import numpy as np
import pytest
import torch

from isopix.analysis import inductive_biases
from isopix.codecs.pixel import PaletteColours
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.data.dataset import Data
from isopix.model.blocks import ConvolutionSpec, MixerSpec, TransformerSpec
from isopix.model.network import Network
from isopix.model.norms import LayerNormSpec
from isopix.model.positions import LearnedPositionEmbeddingSpec, NoPositionEmbeddingSpec
from isopix.model.stems import TokenEmbeddingSpec
from isopix.objectives.autoregressive import Autoregressive
from isopix.recipes import registry
from isopix.recipes.isotropic import BLOCKS
from isopix.recipes.recipe import Recipe
from tests.laws.cases import busy

GRID = Grid(11, 12)
CONV = registry.find("isotropic.tiny-conv-fourier-3").updated(
    data=Data(rows=GRID.rows, cols=GRID.cols),
    depth=2,
    width=8,
)
PLACELESS = CONV.updated(block=BLOCKS["transformer-4"], positions=NoPositionEmbeddingSpec())
PLACED = PLACELESS.updated(positions=LearnedPositionEmbeddingSpec())
MIXER = CONV.updated(block=MixerSpec())
IMAGE_GPT = PLACED.updated(codec=PaletteColours(colours=32), stem=TokenEmbeddingSpec())


def network(recipe: Recipe) -> Network:
    return busy(recipe).double()


def images(count: int = 5) -> Images:
    draw = generator(0, "images")
    return torch.randint(0, 256, (count, 3, *GRID), dtype=torch.uint8, generator=draw)


def reach(recipe: Recipe) -> list[inductive_biases.Reach]:
    return inductive_biases.locality(network(recipe), images(), generator(0, "places"), batch_size=2)


def test_a_convolution_reaches_two_pixels_a_block_and_no_further() -> None:
    for layer, found in enumerate(reach(CONV)):
        assert len(found.profile) == 12
        assert (found.profile > 0).tolist() == [distance <= 2 * layer for distance in range(12)]
        assert found.profile.sum() == pytest.approx(1)
        assert found.radius <= 2 * layer


@pytest.mark.parametrize("recipe", [MIXER, PLACELESS], ids=["mixer", "transformer"])
def test_mixers_and_attention_reach_everywhere_in_one_block(recipe: Recipe) -> None:
    first, second, _ = reach(recipe)
    assert (first.profile > 0).sum() == 1
    assert (second.profile > 0).all()
    assert second.mean > 1


@pytest.mark.parametrize(
    "block", [ConvolutionSpec(), MixerSpec(), TransformerSpec(heads=2, norm=LayerNormSpec())]
)
def test_causal_networks_never_reach_backwards(block) -> None:
    causal = CONV.updated(block=block, objective=Autoregressive())
    assert [found.before for found in reach(causal)] == [0, 0, 0]
    assert reach(causal)[0].shares[GRID.rows - 1, GRID.cols - 1] == 0  # not at the changed pixel either
    assert reach(CONV.updated(block=block))[2].before > 0.1


def test_a_reach_is_what_a_loop_finds() -> None:
    net, one = network(MIXER), images(1)
    place = int(torch.randint(GRID.positions, (1,), generator=generator(0, "places")))
    row, col = divmod(place, GRID.cols)
    changed = one.clone()
    changed[0, :, row, col] ^= 128
    before, after = (list(net.features(each))[1][0].detach().numpy() for each in (one, changed))
    sizes = np.linalg.norm(after - before, axis=1)
    found = inductive_biases.locality(net, one, generator(0, "places"))[1]
    for other, size in enumerate(sizes):
        down, right = other // GRID.cols - row, other % GRID.cols - col
        share = found.shares[GRID.rows - 1 + down, GRID.cols - 1 + right]
        assert share == pytest.approx(size / sizes.sum())
    assert found.mean == pytest.approx(
        sum(
            size * max(abs(other // GRID.cols - row), abs(other % GRID.cols - col))
            for other, size in enumerate(sizes)
        )
        / sizes.sum()
    )


def test_an_even_reach_is_that_of_all_pairs_of_places() -> None:
    places = [divmod(place, 4) for place in range(12)]
    distances = [max(abs(a - c), abs(b - d)) for a, b in places for c, d in places]
    found = inductive_biases.even_reach(Grid(3, 4))
    assert found.mean == pytest.approx(np.mean(distances))
    assert found.profile == pytest.approx(np.bincount(distances) / len(distances))
    assert found.radius == np.quantile(distances, 0.95, method="inverted_cdf")


def test_features_of_convolutions_move_with_the_image_away_from_borders() -> None:
    net = network(CONV)
    assert inductive_biases.translation_error(net, images(), shift=(2, 1), margin=4, batch_size=2) == [
        0,
        0,
        0,
    ]
    near = inductive_biases.translation_error(net, images(), shift=(2, 1), margin=1)
    assert near[:1] == [0]
    assert near[2] > 0.01  # the border is within reach


def test_a_network_without_places_does_not_know_that_pixels_moved() -> None:
    for measured in (
        inductive_biases.translation_error(network(PLACELESS), images()),
        inductive_biases.order_error(network(PLACELESS), images(), generator(0, "orders")),
    ):
        assert measured == pytest.approx([0, 0, 0], abs=1e-12)


@pytest.mark.parametrize("recipe", [PLACED, IMAGE_GPT, MIXER], ids=["learned", "image-gpt", "mixer"])
def test_a_network_that_knows_places_does(recipe: Recipe) -> None:
    translation, order = (
        inductive_biases.translation_error(network(recipe), images()),
        inductive_biases.order_error(network(recipe), images(), generator(0, "orders")),
    )
    assert translation[2] > 0.05
    assert order[2] > 0.05
    assert (translation[0] == order[0] == 0) == (recipe is MIXER)


def test_a_mismatch_is_measured_against_all_other_pairs() -> None:
    one, other = torch.randn(2, 30, 4, generator=generator(0, "vectors"), dtype=torch.float64)
    apart = (one - other).square().sum(1).mean()
    chance = torch.cdist(one, other).square().mean()
    found = inductive_biases.Mismatch()
    for part in (slice(0, 11), slice(11, 30)):
        found.add(one[part], other[part])
    assert found.share == pytest.approx(float((apart / chance).sqrt()))
    assert 0.9 < found.share < 1.1  # they have nothing to do with each other


def test_a_margin_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="leave nothing of 11 x 12"):
        inductive_biases.translation_error(network(CONV), images(), shift=(2, 2), margin=5)


def test_all_three_come_together() -> None:
    net = network(MIXER)
    found = inductive_biases.measure(net, images(2), generator(0, "biases"))
    assert [len(each) for each in found] == [3, 3, 3]
    again = inductive_biases.measure(net, images(2), generator(0, "biases"))
    assert (found.translation, found.order) == (again.translation, again.order)
    assert all((a.shares == b.shares).all() for a, b in zip(found.reach, again.reach, strict=True))
