"""Scores of images, for all parts: against probabilities that sum to one over all images, losses of the
objective and files that the test writes itself.
"""

import io
import math
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.analysis.likelihood import CodeNats, ScoreConfig, code_frequencies, frequency_nats, surprise_maps
from isopix.analysis.scores import Scores, score_images, summarize
from isopix.codecs.palette_spec import PaletteSpec
from isopix.codecs.patches import BytesSpec
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.dataset import DataConfig
from isopix.data.splits import Split
from isopix.objectives.base import nll_per_image
from isopix.objectives.objectives import Autoregressive
from isopix.recipes.recipe import Recipe
from tests.laws import cases

SAMPLED, MASKED = cases.autoregressive(), cases.masked()
TINY = cases.LAW.updated(objective=Autoregressive(), codec=PaletteSpec(num_colors=3))
TINY = TINY.updated(data=DataConfig(rows=2, cols=2))


def scores(recipe: Recipe, images: Images, **settings: int) -> Scores:
    return score_images(cases.busy_model(recipe), recipe.model.head, images, ScoreConfig(**settings))


def test_the_probabilities_of_all_24_bit_images_sum_to_one() -> None:
    """3^4 images of codes: of each, the number of 24-bit images that have these codes, times 2^-bits."""
    model = cases.busy_model(TINY)
    codec = model.network.codec
    values = codec.values_per_code()
    assert values is not None
    codes = torch.tensor(list(product(range(3), repeat=4)))[..., None]
    images = codec.decode(codes)
    assert torch.equal(codec.encode(images), codes)
    bits = score_images(model, TINY.model.head, images, ScoreConfig())["bits_per_dim"] * 3 * 4
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
def test_the_masked_loss_of_an_image_does_not_depend_on_the_others(recipe: Recipe) -> None:
    images = cases.images(recipe, 3)
    found, alone = scores(recipe, images, num_masks=3), scores(recipe, images[2:], num_masks=3)
    assert found["masked_loss"][2:].tolist() == pytest.approx(alone["masked_loss"].tolist(), rel=1e-4)
    assert not {"bits_per_dim", "nats_per_code", "bits_minus_png"} & found.keys()
    assert torch.equal(found["masked_loss"], scores(recipe, images, num_masks=3)["masked_loss"])
    deterministic = getattr(recipe.objective, "deterministic_mask", False)
    other = scores(recipe, images, num_masks=3, seed=1)["masked_loss"]
    assert torch.equal(found["masked_loss"], other) == deterministic


@pytest.mark.parametrize("recipe", MASKED, ids=cases.title)
def test_the_masked_loss_is_the_mean_over_the_codes_of_all_masks(recipe: Recipe) -> None:
    model, image = cases.busy_model(recipe), cases.images(recipe, 1)
    total = count = 0.0
    for number in range(5):
        batch = model.make_reconstruction_batch(image, generator(3, "score.mask", number))
        with torch.no_grad():
            total += float(nll_per_image(model.network, batch)) * int(batch.loss_mask.sum())
        count += int(batch.loss_mask.sum())
    found = scores(recipe, image, num_masks=5, seed=3)["masked_loss"]
    assert float(found) == pytest.approx(total / max(count, 1), rel=1e-4)


def test_the_batch_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    images = cases.images(TINY, 5)
    expected = scores(TINY, images)
    monkeypatch.setattr("isopix.analysis.likelihood.MAX_LOGITS", 2 * 3 * 4)
    model = cases.busy_model(TINY)
    found = score_images(model, TINY.model.head, images, ScoreConfig())
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


def test_file_sizes_are_those_of_whole_files() -> None:
    images = cases.images(TINY, 2)
    found = scores(TINY, images)
    for name, options in (("PNG", {"optimize": True}), ("WEBP", {"lossless": True, "quality": 100})):
        for image, bits in zip(images, found[f"{name.lower()}_bits_per_dim"], strict=True):
            content = io.BytesIO()
            Image.fromarray(np.moveaxis(image.numpy(), 0, 2)).save(content, format=name, **options)
            assert float(bits) * image.numel() == pytest.approx(8 * len(content.getvalue()))
    expected = found["bits_per_dim"] - found["png_bits_per_dim"]
    assert torch.equal(found["bits_minus_png"], expected)


@pytest.mark.parametrize("recipe", [*SAMPLED, MASKED[0]], ids=cases.title)
def test_frequencies_of_codes_are_those_of_training_images(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe, 6) // 64 * 64
    head = recipe.model.head
    if not head.categorical:
        return
    found = code_frequencies(model, head, Split(images[:4]), 0)
    assert found is not None
    codec = model.network.codec
    channels = codec.num_codes // codec.points_per_side**2
    train, test = (codec.encode(part).reshape(len(part), -1, channels) for part in (images[:4], images[4:]))
    expected = []
    for channel in range(channels):
        counts = np.bincount(train[..., channel].flatten(), minlength=codec.vocab_size) + 1
        expected.append(-np.log(counts / counts.sum())[test[..., channel].numpy()])
    nats = frequency_nats(codec, found, codec.encode(images[4:])).mean((1, 2))
    assert nats.tolist() == pytest.approx(np.stack(expected, -1).mean((1, 2)).tolist())


def test_the_standard_error_is_that_of_independent_groups() -> None:
    values = torch.randn(60, generator=generator(0, "values"), dtype=torch.float64)
    found = summarize(values)
    assert found.standard_error == pytest.approx(float(values.std()) / math.sqrt(60))
    assert found.standard_deviation == pytest.approx(float(values.std()))
    copies = summarize(values.repeat_interleave(3), torch.arange(60).repeat_interleave(3))
    assert copies.standard_error == pytest.approx(found.standard_error)
    one = summarize(values[:1])
    assert (one.standard_deviation, one.standard_error) == (None, None)
