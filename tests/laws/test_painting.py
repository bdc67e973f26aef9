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
EXACT = {"bytes", "whole_patch"}  # codes that keep every pixel


@causal
@pytest.mark.parametrize("start", [0, 1, 13])
@pytest.mark.parametrize("each", [1, 3])
def test_cached_logits_equal_one_full_look(recipe: Recipe, start: int, each: int) -> None:
    model = cases.busy_model(recipe)
    net, canvas = model.network, cases.images(recipe, 2)
    painted = list(
        strokes(model, canvas, start=start, each=each, sampling=Sampling(), generator=generator(0, "paint"))
    )
    codes = net.codec.encode(canvas).repeat_interleave(each, 0)
    codes[:, start:] = torch.cat([stroke.codes for stroke in painted], 1)
    full = net(net.inputs_of_codes(codes))[:, start:]
    torch.testing.assert_close(
        torch.stack([stroke.logits for stroke in painted], 1), full, rtol=1e-4, atol=1e-4
    )


@causal
def test_what_was_given_stays(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    net, canvas = model.network, cases.images(recipe, 2)
    done = complete(model, canvas, rows=2, each=2, sampling=Sampling(), generator=generator(0, "paint"))
    shown = net.codec.decode(net.codec.encode(canvas)).repeat_interleave(2, 0)
    assert torch.equal(done[:, :, :2], shown[:, :, :2])


@causal
def test_equal_seeds_draw_equal_images_and_others_do_not(recipe: Recipe) -> None:
    model = cases.model(recipe)
    draws = [sample(model, 4, sampling=Sampling(), generator=generator(seed, "sample")) for seed in (0, 0, 1)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@causal
def test_greedy_painting_names_the_likeliest_code(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    net = model.network
    painted = paint(model, cases.images(recipe, 2), start=5, sampling=GREEDY, generator=generator(0, "paint"))
    codes = net.codec.encode(painted)
    assert torch.equal(net(net.inputs_of(painted)).argmax(-1)[:, 5:], codes[:, 5:])


@causal
def test_a_causal_network_does_not_reconstruct(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="was trained with the autoregressive objective"):
        reconstruct(cases.model(recipe), cases.images(recipe), generator=generator(0, "hide"))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_a_masked_network_does_not_paint(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="can fill in hidden pixels"):
        sample(cases.model(recipe), 1, sampling=Sampling(), generator=generator(0, "sample"))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_reconstruction_changes_hidden_pixels_alone(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    net = model.network
    found = reconstruct(model, cases.images(recipe), generator=generator(0, "hide"))
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
    model, images = cases.busy_model(recipe), cases.images(recipe)
    net = model.network
    found = reconstruct(model, images, generator=generator(0, "hide"))
    assert torch.equal(net.backbone(net.inputs_of(found.original)), net.backbone(net.inputs_of(images)))
    assert torch.equal(found.original, images) == (
        not net.backbone.stem.reads_codes or recipe.model.codec.kind in EXACT
    )
