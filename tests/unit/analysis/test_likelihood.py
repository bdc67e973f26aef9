"""Scores of images, for all parts: against probabilities that sum to one over all images, losses of the
objective and files that the test writes itself."""

import io
import math
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.analysis.scores import (
    CodeNats,
    ScoreConfig,
    Scores,
    score_images,
    summarize,
    surprise_maps,
)
from isopix.codecs.palette_spec import PaletteSpec
from isopix.codecs.patches import BytesSpec, MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.data.dataset import DataConfig
from isopix.objectives.base import nll_per_image
from isopix.objectives.objectives import Autoregressive
from isopix.recipes.recipe import Recipe
from tests.laws import cases

SAMPLED, MASKED = cases.autoregressive(), cases.masked()
TINY = cases.LAW.updated(objective=Autoregressive(), codec=PaletteSpec(num_colors=3))
TINY = TINY.updated(data=DataConfig(rows=2, cols=2))


def scores(recipe: Recipe, images: Images, **settings: int) -> Scores:
    return score_images(cases.busy_model(recipe), images, ScoreConfig(**settings))


def test_the_probabilities_of_all_24_bit_images_sum_to_one() -> None:
    """3^4 images of codes: of each, the number of 24-bit images that have these codes, times 2^-bits."""
    model = cases.busy_model(TINY)
    codec = model.network.codec
    values = codec.values_per_code()
    assert values is not None
    codes = torch.tensor(list(product(range(3), repeat=4)))[..., None]
    images = codec.decode(codes)
    assert torch.equal(codec.encode(images), codes)
    bits = score_images(model, images, ScoreConfig())["bits_per_dim"] * 3 * 4
    assert bits.std() > 0.1
    total = sum(
        math.prod(values[each.flatten()].tolist()) * 2.0 ** -float(length)
        for each, length in zip(codes, bits, strict=True)
    )
    assert total == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("recipe", SAMPLED, ids=cases.title)
def test_the_score_of_an_autoregressive_model_is_its_loss(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe, 3)
    batch = model.make_batch(images, generator(0, "any"))
    with torch.no_grad():
        expected = nll_per_image(model.network, batch)
    found = scores(recipe, images)
    assert found["nats_per_code"].tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    determined = model.network.codec.values_per_code() is not None
    assert ("bits_per_dim" in found, "bits_minus_png" in found) == (determined, determined)
    assert "masked_loss" not in found


@pytest.mark.parametrize("recipe", MASKED, ids=cases.title)
def test_the_masked_loss_is_the_mean_over_the_codes_of_all_masks(recipe: Recipe) -> None:
    """Of an image, whatever the others are."""
    model, images = cases.busy_model(recipe), cases.images(recipe, 3)
    total = count = 0.0
    for number in range(5):
        batch = model.make_reconstruction_batch(images[2:], generator(3, "score.mask", number))
        with torch.no_grad():
            total += float(nll_per_image(model.network, batch)) * int(batch.loss_mask.sum())
        count += int(batch.loss_mask.sum())
    found = scores(recipe, images, num_masks=5, seed=3)
    assert float(found["masked_loss"][2]) == pytest.approx(total / max(count, 1), rel=1e-4)
    assert not {"bits_per_dim", "nats_per_code", "bits_minus_png"} & found.keys()


def test_the_batch_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    images = cases.images(TINY, 5)
    expected = scores(TINY, images)
    monkeypatch.setattr("isopix.analysis.scores.MAX_LOGITS", 2 * 3 * 4)
    model = cases.busy_model(TINY)
    found = score_images(model, images, ScoreConfig())
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values.tolist(), rel=1e-5), name


def test_a_map_has_the_nats_where_they_are_and_nothing_where_nothing_is_predicted() -> None:
    recipe = TINY.updated(codec=BytesSpec())
    codec = cases.busy_model(recipe).network.codec
    nats, times = torch.zeros(1, 4, 3, dtype=torch.float64), torch.zeros(1, 4, 3, dtype=torch.float64)
    nats[0, 1], times[0, 1] = torch.tensor([2.0, 4, 6]), 2  # the second pixel, under two masks
    maps = surprise_maps(codec, CodeNats(torch.zeros(1, 4, 3).long(), nats, times))[0]
    assert float(maps[0, 1]) == 6.0
    assert int(maps.isnan().sum()) == 3


def test_a_map_of_patches_has_nats_per_pixel() -> None:
    codec = MeanColorSpec(patch_size=4).placeholder(Grid(2, 3))
    nats = torch.arange(6, dtype=torch.float64).view(1, 6, 1)
    maps = surprise_maps(codec, CodeNats(torch.zeros(1, 6, 1).long(), nats, torch.ones_like(nats)))[0]
    assert maps.sum() * 4 * 4 / maps.numel() * 6 == pytest.approx(float(nats.sum()))


def test_file_sizes_are_those_of_whole_files() -> None:
    images = cases.images(TINY, 2)
    found = scores(TINY, images)
    for image, bits in zip(images, found["png_bits_per_dim"], strict=True):
        content = io.BytesIO()
        Image.fromarray(np.moveaxis(image.numpy(), 0, 2)).save(content, format="PNG", optimize=True)
        assert float(bits) * image.numel() == pytest.approx(8 * len(content.getvalue()))
    expected = found["bits_per_dim"] - found["png_bits_per_dim"]
    assert torch.equal(found["bits_minus_png"], expected)


def test_the_standard_error_is_that_of_independent_groups() -> None:
    values = torch.randn(60, generator=generator(0, "values"), dtype=torch.float64)
    found = summarize(values)
    assert found.standard_error == pytest.approx(float(values.std()) / math.sqrt(60))
    assert found.standard_deviation == pytest.approx(float(values.std()))
    copies = summarize(values.repeat_interleave(3), torch.arange(60).repeat_interleave(3))
    assert copies.standard_error == pytest.approx(found.standard_error)
    one = summarize(values[:1])
    assert (one.standard_deviation, one.standard_error) == (None, None)
