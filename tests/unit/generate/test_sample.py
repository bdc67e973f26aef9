"""The distribution that codes are drawn from, the most likely ones, and who can be asked for them."""

from contextlib import nullcontext, suppress
from dataclasses import replace

import pytest
import torch

from isopix.codecs.base import Codec
from isopix.core.device import Precision
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.generate import sample
from isopix.generate.complete import Reconstruction, reconstruct_images
from isopix.generate.results import SamplingConfig
from isopix.generate.sample import probabilities, require, sample_codes
from isopix.model.heads import NoHeadSpec, RegressionHeadSpec
from isopix.model.network import Network
from isopix.objectives.base import ObjectiveSpec, PretrainModel, TrainingBatch
from isopix.objectives.objectives import Masked, NoObjective
from isopix.recipes.recipe import Recipe
from tests.laws import cases

LOGITS = torch.tensor([[[0.0, 2.0, 1.0, -1.0]], [[3.0, 3.0, 0.0, 0.0]]])
AR = next(case for case in cases.autoregressive() if case.model.block.kind == "transformer")


@pytest.mark.parametrize("settings", [{}, {"top_k": 99}, {"top_p": 1.0}])
def test_the_defaults_are_the_models_own_distribution(settings: dict[str, float]) -> None:
    torch.testing.assert_close(probabilities(LOGITS, SamplingConfig(**settings)), LOGITS.softmax(-1))


def test_temperature_divides_logits_and_the_lowest_is_greedy() -> None:
    found = probabilities(LOGITS, SamplingConfig(temperature=0.5))
    torch.testing.assert_close(found, (LOGITS * 2).softmax(-1))
    for temperature in (1e-6, 1e-38, 5e-324):
        assert probabilities(LOGITS[:1], SamplingConfig(temperature=temperature)).tolist() == [[[0, 1, 0, 0]]]


@pytest.mark.parametrize(("p", "kept"), [(0.1, 1), (0.64, 1), (0.66, 2), (0.9, 3), (1.0, 4)])
def test_top_p_keeps_the_smallest_set_that_reaches_p(p: float, kept: int) -> None:
    """The probabilities are 0.644, 0.237, 0.087 and 0.032."""
    assert int((probabilities(LOGITS, SamplingConfig(top_p=p))[0] > 0).sum()) == kept


@pytest.mark.parametrize("number", [0.0, 0.3, 1 - 2**-53])
@pytest.mark.parametrize("kept", [[0], [3], [1, 2], [0, 3]])
def test_codes_without_probability_are_never_sampled(number: float, kept: list[int]) -> None:
    logits = torch.full((1, 1, 4), -torch.inf)
    logits[..., kept] = 0
    code = sample_codes(logits, torch.full((1, 1), number, dtype=torch.float64), SamplingConfig()).item()
    assert code == kept[int(number * len(kept))]


# precision, native precision, device, that of products, and whether matrices are rounded once
MODES = [("bf16", "bf16", "cpu", "fp32", True), ("bf16", "fp32", "cpu", "fp32", False)]
MODES += [("fp32", "bf16", "cpu", "fp32", False), ("bf16", "bf16", "cuda", "bf16", False)]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_gpus_multiply_in_bf16_and_cpus_with_instructions_for_it_round_matrices_once(
    monkeypatch: pytest.MonkeyPatch, mode: tuple[Precision, Precision, str, Precision, bool]
) -> None:
    (precision, native, device, products, rounds), used = mode, list[Precision]()
    monkeypatch.setattr(sample, "native_precision", lambda device: native)
    monkeypatch.setattr(sample, "autocast", lambda device, precision: nullcontext(used.append(precision)))
    monkeypatch.setattr(Network, "device", torch.device(device))
    settings = SamplingConfig(precision=precision)
    with sample.sampling_mode(cases.model(AR), settings):
        assert used == [products]
    assert sample._rounds_matrices(torch.device(device), settings) == rounds


@pytest.mark.parametrize("recipe", cases.autoregressive(), ids=cases.title)
def test_cache_bytes_are_what_the_caches_of_an_image_take(recipe: Recipe) -> None:
    network = cases.network(recipe)
    backbone, images = network.backbone, cases.images(recipe, 3)
    caches = backbone.new_caches()
    backbone.decode_step(backbone.embed_each(network.inputs_of(images)), caches)
    every = [getattr(each, "all_rows", each) for cache in caches for each in vars(cache).values()]
    held = sum(each.nbytes for each in every if isinstance(each, torch.Tensor))
    assert sample.cache_bytes(network, "fp32") == held // 3 > 0


def test_images_at_once_fill_half_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    network = cases.network(AR)
    each = sample.cache_bytes(network, "fp32")
    for free, expected in ((20 * each, 10), (7 * each, 3), (0, 1)):
        monkeypatch.setattr(sample, "free_memory", lambda device, free=free: free)
        found = [sample.images_at_once(network, precision) for precision in ("fp32", "bf16")]
        assert found == [expected, max(1, free // each)]


def able(model: PretrainModel) -> list[str]:
    found = []
    for verb in ("sample", "complete", "reconstruct"):
        with suppress(ValueError):
            require(model, verb)
            found.append(verb)
    return found


def test_a_model_says_what_it_can_be_asked_for() -> None:
    masked, regression = cases.masked()[0], RegressionHeadSpec()
    means = next(case for case in cases.masked() if case.model.head == regression)
    headless = means.updated(head=NoHeadSpec())
    unknown = masked.updated(objective=NoObjective())
    assert able(cases.model(AR)) == ["sample", "complete"]
    assert able(cases.model(masked)) == ["complete", "reconstruct"]
    assert able(cases.model(means)) == ["reconstruct"]
    assert able(cases.model(headless)) == able(cases.model(unknown)) == []


READS_CODES = next(case for case in cases.masked() if case.model.stem.kind == "token_embedding")
READS_PIXELS = next(case for case in cases.masked() if case.model.stem.kind == "patch_embed")
both = pytest.mark.parametrize("recipe", [READS_CODES, READS_PIXELS], ids=["codes", "pixels"])


def found_by(model: PretrainModel, images: Images) -> Reconstruction:
    return reconstruct_images(model, images, generator=generator(0, "hide"))


def check(model: PretrainModel, found: Reconstruction, inputs: Images, batch: TrainingBatch) -> None:
    """Against the most likely codes of these inputs, under the mask of this batch."""
    network = model.network
    assert torch.equal(found.mask, batch.mask)
    predicted = network.predict(network.inputs_of(inputs), batch.mask)
    correct = (predicted == batch.targets)[batch.loss_mask.expand_as(predicted)]
    assert found.accuracy == pytest.approx(correct.double().mean().item())
    decoded = network.codec.decode(torch.where(batch.mask, predicted, batch.targets))
    masked = found.pixel_mask[:, None]
    assert torch.equal(found.prediction * masked, decoded * masked)


class HalfMasked(Masked):
    """Masks the right half of what it inverts, and has the first column and the last in the loss."""

    def make_batch(self, images: Images, codec: Codec, generator: torch.Generator) -> TrainingBatch:
        column = torch.arange(codec.grid.positions) % codec.grid.cols
        mask, loss_mask = column >= codec.grid.cols // 2, (column == 0) | (column == codec.grid.cols - 1)
        masks = [each[None, :, None].expand(len(images), -1, 1) for each in (mask, loss_mask)]
        return TrainingBatch.with_equal_weights(255 - images, masks[0], codec.encode(images), masks[1])

    make_reconstruction_batch = ObjectiveSpec.make_reconstruction_batch


@both
def test_what_is_masked_shown_and_scored_is_what_the_objective_says(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe)
    objective = HalfMasked(corruption=recipe.objective.corruption)
    batch = objective.make_batch(images, model.network.codec, generator(0, "any"))
    found = found_by(PretrainModel(model.network, objective), images)
    check(model, found, 255 - images, batch)
    assert torch.equal(found.original, model.network.visible_pixels(images))


@both
def test_chosen_positions_that_training_keeps_or_replaces_are_masked(recipe: Recipe) -> None:
    model, images = cases.busy_model(recipe), cases.images(recipe)
    shown = replace(recipe.objective, random_rate=0.5, keep_rate=0.5)
    batch = shown.make_batch(images, model.network.codec, generator(0, "hide"))
    found = found_by(PretrainModel(model.network, shown), images)
    check(model, found, images, batch._replace(mask=batch.loss_mask))
