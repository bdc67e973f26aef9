"""Scores of images, for all parts: against probabilities that sum to one over all images, losses of the
objective and files that the test writes itself."""

import io
import math
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score

from isopix.analysis.results import AUROC
from isopix.analysis.scores import (
    CodeNats,
    ScoreConfig,
    Scores,
    auroc,
    code_frequencies,
    frequency_nats,
    score_images,
    summarize,
    surprise_maps,
)
from isopix.codecs.palette_spec import PaletteSpec
from isopix.codecs.patches import BytesSpec, MeanColorSpec
from isopix.core.random import generator
from isopix.core.stats import resample_counts
from isopix.core.types import Grid, Images
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
    found = code_frequencies(model, head, Split(images[:4]), 0)
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


FIRST = np.round(np.random.default_rng(0).normal(0, 1, 80), 1)  # rounded, so that some are equal
SECOND = np.round(np.random.default_rng(1).normal(0.7, 1, 50), 1)


def resampled(num_resamples: int, seed: int) -> list[float]:
    """The AUROC of each resample, one after the other, by scikit-learn."""
    labels, values = np.repeat([0, 1], [80, 50]), np.concatenate([FIRST, SECOND])
    draws = [generator(seed, "auroc", each) for each in (0, 1)]
    counts = [
        torch.cat(
            [
                resample_counts(size, min(50, num_resamples - start), draw)
                for start in range(0, num_resamples, 50)
            ]
        )
        for size, draw in zip((80, 50), draws, strict=True)
    ]
    weights = torch.cat(counts, 1).numpy()
    return [roc_auc_score(labels, values, sample_weight=each) for each in weights]


def test_the_value_and_the_interval_are_those_of_scikit_learn() -> None:
    found, expected = auroc(FIRST, SECOND, num_resamples=120, seed=4), resampled(120, seed=4)
    labels = np.repeat([0, 1], [80, 50])
    assert found.auroc == roc_auc_score(labels, np.concatenate([FIRST, SECOND]))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(expected, [0.025, 0.975])))
    assert found.low < found.auroc < found.high


def test_sets_that_are_separated_have_an_interval_that_narrows_with_their_sizes() -> None:
    """One image of each: 1 / (1 + z^2) with z = 1.95996 by hand."""
    above = [auroc(np.zeros(size), np.ones(size)) for size in (1, 5, 100)]
    assert above[0] == AUROC(1.0, above[0].low, 1.0)
    assert above[0].low == pytest.approx(0.206549, rel=1e-5)
    assert 0.5 < above[1].low < 0.7
    assert 0.95 < above[2].low < 1
    below = auroc(np.ones(5), np.zeros(5))
    assert (below.auroc, below.low) == (0, 0)
    assert below.high == pytest.approx(1 - above[1].low)
    groups = torch.zeros(5, dtype=torch.int64), torch.zeros(5, dtype=torch.int64)
    assert auroc(np.zeros(5), np.ones(5), groups=groups).low == above[0].low


def test_copies_in_groups_do_not_narrow_the_interval() -> None:
    groups = torch.arange(80).repeat_interleave(4), torch.arange(50).repeat_interleave(4)
    single = auroc(FIRST, SECOND)
    copied = auroc(FIRST.repeat(4), SECOND.repeat(4), groups=groups)
    taken_apart = auroc(FIRST.repeat(4), SECOND.repeat(4))
    assert copied == pytest.approx(single)
    assert taken_apart.high - taken_apart.low < 0.7 * (single.high - single.low)
