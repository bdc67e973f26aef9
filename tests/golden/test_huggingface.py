"""Our iGPT against an implementation that is not ours: Hugging Face's ImageGPT with the same random
weights.
"""

import pytest
import torch

from isopix.core.random import generator
from isopix.generate.sample import Sampling, strokes
from isopix.objectives.network import Network
from isopix.recipes import catalogue
from isopix.transfer.features import extract

peer = pytest.importorskip("bench.peer", reason="the reference is in isopix[bench]")

COLOURS = 32
SHAPES = {"2x16, one head": (2, 16, 1), "3x24, three heads": (3, 24, 3)}


def ours(depth: int, width: int, heads: int) -> Network:
    words = [
        f"depth={depth}",
        f"width={width}",
        f"block.heads={heads}",
        f"codec.colours={COLOURS}",
        "data.cols=6",
    ]
    recipe = catalogue.resolve("igpt.digits", assignments=words).recipe
    step = torch.arange(COLOURS)
    colours = torch.stack([step * 8, (step * 37) % 256, 255 - step * 8], 1).float()
    net = recipe.build(recipe.codec.build(recipe.grid, colours)).double()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.3)
    return net.eval()


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def pair(request: pytest.FixtureRequest) -> tuple[Network, torch.nn.Module]:
    net = ours(*request.param)
    return net, peer.twin(net, request.param[2]).eval()


def pixels(net: Network) -> torch.Tensor:
    grid = net.codec.grid
    codes = torch.randint(0, COLOURS, (3, grid.positions, 1), generator=torch.Generator().manual_seed(1))
    return net.codec.decode(codes)


@torch.no_grad()
def test_logits_are_equal(pair: tuple[Network, torch.nn.Module]) -> None:
    net, model = pair
    images = pixels(net)
    reference = model(input_ids=peer.shifted(net, images)).logits
    torch.testing.assert_close(net.head.project(net.backbone(images)), reference, rtol=0, atol=1e-10)


@torch.no_grad()
def test_features_are_their_hidden_states_behind_the_next_norm(pair: tuple[Network, torch.nn.Module]) -> None:
    """Layers below the last: ln_1 of the block above; the last is normed by ln_f already in what they
    return.
    """
    net, model = pair
    images = pixels(net)
    states = model.transformer(input_ids=peer.shifted(net, images), output_hidden_states=True).hidden_states
    normed = [block.ln_1(state) for block, state in zip(model.transformer.h, states, strict=False)] + [
        states[-1]
    ]
    for own, reference in zip(net.backbone.features(images), normed, strict=True):
        torch.testing.assert_close(own, reference, rtol=0, atol=1e-10)
    pooled = extract(net.backbone, images)
    reference = torch.stack([state.mean(1) for state in normed]).float()
    torch.testing.assert_close(pooled, reference, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_greedy_painting_draws_the_same_codes(pair: tuple[Network, torch.nn.Module]) -> None:
    net, model = pair
    images, positions = pixels(net), net.codec.grid.positions
    greedy = strokes(net, images, start=0, sampling=Sampling(top_k=1), generator=generator(0, "golden"))
    own = torch.cat([stroke.codes[..., 0] for stroke in greedy], 1)
    ids = torch.full((len(images), 1), COLOURS)
    for _ in range(positions):
        ids = torch.cat([ids, model(input_ids=ids).logits[:, -1:].argmax(-1)], 1)
    assert torch.equal(own, ids[:, 1:])


@torch.no_grad()
def test_leaving_out_the_start_symbol_gives_other_features(pair: tuple[Network, torch.nn.Module]) -> None:
    """What a user of their feature path gets: every pixel one position early; measurably not the paper's
    features.
    """
    net, model = pair
    images = pixels(net)
    naive = model.transformer(input_ids=net.codec.encode(images)[..., 0], output_hidden_states=True)
    naive_mean = model.transformer.h[1].ln_1(naive.hidden_states[1]).mean(1)
    own = list(net.backbone.features(images))[1].mean(1)
    assert (naive_mean - own).norm() / own.norm() > 0.02
