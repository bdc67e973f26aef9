"""Laws of generation: cached step-by-step decoding equals one full forward pass."""

import pytest
import torch

from isopix.core.random import generator
from isopix.generate.complete import complete
from isopix.generate.reconstruct import reconstruct
from isopix.generate.sample import SamplingConfig, decode_steps, fill_in, sample
from isopix.recipes.recipe import Recipe
from tests.laws import cases

causal = pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
GREEDY = SamplingConfig(top_k=1)
EXACT = {"bytes", "whole_patch"}  # codes that keep every pixel


@causal
@pytest.mark.parametrize("start", [0, 1, 13])
@pytest.mark.parametrize("samples", [1, 3])
def test_cached_logits_equal_one_full_forward_pass(recipe: Recipe, start: int, samples: int) -> None:
    net = cases.busy(recipe)
    prompt = cases.images(recipe, 2)
    steps = list(
        decode_steps(
            net,
            prompt,
            start=start,
            samples_per_prompt=samples,
            sampling=SamplingConfig(),
            generator=generator(0, "paint"),
        )
    )
    codes = net.codec.encode(prompt).repeat_interleave(samples, 0)
    codes[:, start:] = torch.cat([step.codes for step in steps], 1)
    full = net.logits(net.codec.decode(codes))[:, start:]
    torch.testing.assert_close(torch.stack([step.logits for step in steps], 1), full, rtol=1e-4, atol=1e-4)


@causal
def test_completion_keeps_the_given_rows(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    prompt = cases.images(recipe, 2)
    completed = complete(
        net, prompt, rows=2, samples_per_prompt=2, sampling=SamplingConfig(), generator=generator(0, "paint")
    )
    quantized = net.codec.decode(net.codec.encode(prompt)).repeat_interleave(2, 0)
    assert torch.equal(completed[:, :, :2], quantized[:, :, :2])


@causal
def test_samples_are_determined_by_the_seed(recipe: Recipe) -> None:
    net = cases.network(recipe)
    draws = [
        sample(net, 4, sampling=SamplingConfig(), generator=generator(seed, "sample")) for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@causal
def test_greedy_decoding_takes_the_most_likely_code(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    filled = fill_in(net, cases.images(recipe, 2), start=5, sampling=GREEDY, generator=generator(0, "paint"))
    codes = net.codec.encode(filled)
    assert torch.equal(net.logits(filled).argmax(-1)[:, 5:], codes[:, 5:])


@causal
def test_an_autoregressive_network_does_not_reconstruct(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="was trained with the autoregressive objective"):
        reconstruct(cases.network(recipe), cases.images(recipe), generator=generator(0, "hide"))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_a_masked_network_does_not_sample(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="can reconstruct masked pixels"):
        sample(cases.network(recipe), 1, sampling=SamplingConfig(), generator=generator(0, "sample"))


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_reconstruction_changes_masked_pixels_only(recipe: Recipe) -> None:
    net = cases.busy(recipe)
    found = reconstruct(net, cases.images(recipe), generator=generator(0, "hide"))
    differs = net.codec.encode(found.prediction) != net.codec.encode(found.target)
    assert found.mask.any()
    assert not (differs & ~found.mask).any()
    visible = ~found.pixel_mask[:, None]
    assert torch.equal(found.prediction * visible, found.original * visible)
    assert torch.equal(found.target * visible, found.original * visible)
    correct = ~differs[found.mask.expand_as(differs)]
    assert found.accuracy == pytest.approx(correct.float().mean().item())


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_the_original_of_a_reconstruction_is_what_the_network_reads(recipe: Recipe) -> None:
    net, images = cases.busy(recipe), cases.images(recipe)
    found = reconstruct(net, images, generator=generator(0, "hide"))
    assert torch.equal(net.backbone(found.original), net.backbone(images))
    assert torch.equal(found.original, images) == (
        recipe.model.stem.kind != "codes" or recipe.model.codec.kind in EXACT
    )
