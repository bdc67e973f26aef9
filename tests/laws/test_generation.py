"""Laws of generation: cached step-by-step decoding equals one full forward pass."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from isopix.core.device import Precision
from isopix.core.random import generator
from isopix.generate.complete import reconstruct_images
from isopix.generate.results import SamplingConfig
from isopix.generate.sample import decode_steps, sample_images, uniform_numbers
from isopix.model import network as networks
from isopix.model.caches import AttentionCache
from isopix.recipes.recipe import Recipe
from tests.laws import cases

causal = pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
EXACT = {"bytes", "full_patch"}  # codes that keep every pixel


@causal
@pytest.mark.parametrize("start", [0, 1, 13])
@pytest.mark.parametrize("samples", [1, 3])
def test_cached_logits_equal_one_full_forward_pass(recipe: Recipe, start: int, samples: int) -> None:
    model = cases.busy_model(recipe)
    net, prompt = model.network, cases.images(recipe, 2)
    steps = list(
        decode_steps(
            model,
            prompt,
            start=start,
            samples_per_prompt=samples,
            sampling=SamplingConfig(),
            uniform=uniform_numbers(net, ((0, "paint", image) for image in range(2 * samples))),
        )
    )
    codes = net.codec.encode(prompt).repeat_interleave(samples, 0)
    codes[:, start:] = torch.cat([step.codes for step in steps], 1)
    full = net(net.inputs_of(net.codec.decode(codes)))[:, start:]
    torch.testing.assert_close(torch.stack([step.logits for step in steps], 1), full, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("large", [0, networks.LARGE_MATRIX])
@pytest.mark.parametrize("samples", [1, 3])
def test_bf16_changes_logits_by_rounding_only(
    monkeypatch: pytest.MonkeyPatch, samples: int, large: int
) -> None:
    monkeypatch.setattr(networks, "LARGE_MATRIX", large)
    monkeypatch.setattr("isopix.generate.sample.native_precision", lambda device: "bf16")
    recipe = next(case for case in cases.autoregressive() if case.model.block.kind == "transformer")
    model = cases.busy_model(recipe)
    prompt, streams = cases.images(recipe, 2), [(0, "paint", image) for image in range(2 * samples)]
    found: dict[str, Tensor] = {}
    codes = list[Tensor]()
    for precision in get_args(Precision):
        settings = {"start": 13, "samples_per_prompt": samples}
        uniform = uniform_numbers(model.network, streams)
        sampling = SamplingConfig(precision=precision)
        steps = decode_steps(model, prompt, sampling=sampling, uniform=uniform, **settings)
        first, second, *_ = steps
        found[precision] = torch.stack([first.logits, second.logits]).log_softmax(-1)
        codes.append(first.codes)
    assert torch.equal(*codes)  # else the second logits would be of other codes
    assert not torch.equal(*found.values())
    torch.testing.assert_close(*found.values(), rtol=0.02, atol=0.02)


def test_samples_of_a_prompt_share_its_keys_and_values() -> None:
    cache = AttentionCache(8)
    rows = torch.randn(2, 1, 5, 4, generator=generator(0, "law"))
    cache.first.extend(rows)
    cache.second.extend(rows)
    assert cache.num_bytes == 2 * 2 * 8 * 4 * 4
    cache.repeat_batch(3)
    assert torch.equal(cache.shared.keys, rows)
    for buffer in (cache.first, cache.second):
        assert buffer.extend(rows[:, :, :1].repeat(3, 1, 1, 1)).shape == (6, 1, 1, 4)
    assert cache.num_bytes == 2 * 6 * 3 * 4 * 4


@causal
def test_a_sample_is_a_function_of_the_seed_and_not_of_the_images_beside_it(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    model.network.double()  # in which a product of matrices of another size rounds to the same code
    settings = SamplingConfig(temperature=0.9)
    many = sample_images(model, 5, sampling=settings, seed=3, batch_size=5)
    assert torch.equal(sample_images(model, 2, sampling=settings, seed=3), many[:2])
    assert torch.equal(sample_images(model, 5, sampling=settings, seed=3, batch_size=2), many)


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_reconstruction_changes_masked_pixels_only(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    codec = model.network.codec
    found = reconstruct_images(model, cases.images(recipe), generator=generator(0, "hide"))
    differs = codec.encode(found.prediction) != codec.encode(found.target)
    assert found.mask.any()
    assert not (differs & ~found.mask).any()
    visible = ~found.pixel_mask[:, None]
    assert torch.equal(found.prediction * visible, found.original * visible)
    assert torch.equal(found.target * visible, found.original * visible)
    correct = ~differs[found.mask.expand_as(differs)]
    assert found.accuracy == pytest.approx(correct.float().mean().item())


@pytest.mark.parametrize("recipe", cases.masked(), ids=cases.title)
def test_the_original_of_a_reconstruction_is_what_the_network_reads(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe)
    net = model.network
    found = reconstruct_images(model, images, generator=generator(0, "hide"))
    inputs = (net.inputs_of(each) for each in (found.original, images))
    assert torch.equal(*map(net.backbone, inputs))
    assert torch.equal(found.original, images) == (
        not net.backbone.stem.reads_codes or recipe.model.codec.kind in EXACT
    )
