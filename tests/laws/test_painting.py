"""Laws of generation: painting step by step is looking once."""

import pytest
import torch

from isopix.core.random import generator
from isopix.generate.complete import complete
from isopix.generate.reconstruct import reconstruct
from isopix.generate.sample import Sampling, paint, sample, strokes
from isopix.recipes.recipe import Recipe
from tests.laws import cases

causal = pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
GREEDY = Sampling(top_k=1)
EXACT = {"bytes", "full_patch"}  # codes that keep every pixel


@causal
@pytest.mark.parametrize("start", [0, 1, 13])
@pytest.mark.parametrize("each", [1, 3])
def test_cached_logits_equal_one_full_look(recipe: Recipe, start: int, each: int) -> None:
    net = cases.busy(recipe)
    canvas = cases.images(recipe, 2)
    painted = list(
        strokes(net, canvas, start=start, each=each, sampling=Sampling(), generator=generator(0, "paint"))
    )
    codes = net.codec.encode(canvas).repeat_interleave(each, 0)
    codes[:, start:] = torch.cat([stroke.codes for stroke in painted], 1)
    full = net.logits(net.codec.decode(codes))[:, start:]
    torch.testing.assert_close(
        torch.stack([stroke.logits for stroke in painted], 1), full, rtol=1e-4, atol=1e-4
    )


@causal
def test_what_was_given_stays(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    canvas = cases.images(recipe, 2)
    done = complete(net, canvas, rows=2, each=2, sampling=Sampling(), generator=generator(0, "paint"))
    shown = net.codec.decode(net.codec.encode(canvas)).repeat_interleave(2, 0)
    assert torch.equal(done[:, :, :2], shown[:, :, :2])


@causal
def test_equal_seeds_draw_equal_images_and_others_do_not(recipe: Recipe) -> None:
    net = cases.network(recipe)
    draws = [sample(net, 4, sampling=Sampling(), generator=generator(seed, "sample")) for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@causal
def test_greedy_painting_names_the_likeliest_code(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    painted = paint(net, cases.images(recipe, 2), start=5, sampling=GREEDY, generator=generator(0, "paint"))
    codes = net.codec.encode(painted)
    assert torch.equal(net.logits(painted).argmax(-1)[:, 5:], codes[:, 5:])


@causal
def test_a_causal_network_does_not_reconstruct(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="was trained with the autoregressive objective"):
        reconstruct(cases.network(recipe), cases.images(recipe), generator=generator(0, "hide"))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_a_masked_network_does_not_paint(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="can fill in hidden pixels"):
        sample(cases.network(recipe), 1, sampling=Sampling(), generator=generator(0, "sample"))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_reconstruction_changes_hidden_pixels_alone(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    found = reconstruct(net, cases.images(recipe), generator=generator(0, "hide"))
    differs = net.codec.encode(found.answer) != net.codec.encode(found.target)
    assert found.hidden.any()
    assert not (differs & ~found.hidden).any()
    seen = ~found.unseen[:, None]
    assert torch.equal(found.answer * seen, found.original * seen)
    assert torch.equal(found.target * seen, found.original * seen)
    right = ~differs[found.hidden.expand_as(differs)]
    assert found.accuracy == pytest.approx(right.float().mean().item())


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_the_original_of_a_reconstruction_is_all_that_the_network_sees(recipe: Recipe) -> None:
    net, images = cases.busy(recipe), cases.images(recipe)
    found = reconstruct(net, images, generator=generator(0, "hide"))
    assert torch.equal(net.backbone(found.original), net.backbone(images))
    assert torch.equal(found.original, images) == (
        recipe.model.stem.kind != "codes" or recipe.model.codec.kind in EXACT
    )
