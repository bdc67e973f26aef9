import pytest
import torch

from isopix.core.random import generator
from isopix.generate.complete import complete_images, make_prompt
from isopix.generate.sample import fill_in
from isopix.generate.sampling_config import SamplingConfig
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry

LOGITS = torch.tensor([[[0.0, 2.0, 1.0, -1.0]], [[3.0, 3.0, 0.0, 0.0]]])


def test_the_defaults_are_the_models_own_distribution() -> None:
    torch.testing.assert_close(SamplingConfig().probabilities(LOGITS), LOGITS.softmax(-1))


def test_temperature_divides_logits() -> None:
    torch.testing.assert_close(
        SamplingConfig(temperature=0.5).probabilities(LOGITS), (LOGITS * 2).softmax(-1)
    )


def test_top_k_keeps_the_most_likely_codes_and_renormalizes() -> None:
    found = SamplingConfig(top_k=2).probabilities(LOGITS)[0, 0]
    assert (found > 0).tolist() == [False, True, True, False]
    torch.testing.assert_close(found[1:3], LOGITS[0, 0, 1:3].softmax(-1))


def test_top_k_above_the_vocabulary_size_keeps_all_codes() -> None:
    torch.testing.assert_close(SamplingConfig(top_k=99).probabilities(LOGITS), LOGITS.softmax(-1))


@pytest.mark.parametrize(("p", "kept"), [(0.1, 1), (0.64, 1), (0.66, 2), (0.9, 3), (1.0, 4)])
def test_top_p_keeps_the_smallest_set_that_reaches_p(p: float, kept: int) -> None:
    """The probabilities are 0.644, 0.237, 0.087 and 0.032."""
    assert int((SamplingConfig(top_p=p).probabilities(LOGITS)[0] > 0).sum()) == kept


def test_sampled_frequencies_match_the_probabilities() -> None:
    many = LOGITS[:1].expand(20_000, 1, 4)
    uniform = torch.rand(20_000, 1, dtype=torch.float64, generator=generator(0, "test"))
    sampled = SamplingConfig().sample_codes(many, uniform).flatten()
    frequencies = torch.bincount(sampled, minlength=4) / len(sampled)
    torch.testing.assert_close(frequencies, LOGITS[0, 0].softmax(-1), atol=0.015, rtol=0)


@pytest.mark.parametrize("number", [0.0, 0.3, 1 - 2**-53])
@pytest.mark.parametrize("kept", [[0], [3], [1, 2], [0, 3]])
def test_codes_without_probability_are_never_sampled(number: float, kept: list[int]) -> None:
    logits = torch.full((1, 1, 4), -torch.inf)
    logits[..., kept] = 0
    code = SamplingConfig().sample_codes(logits, torch.full((1, 1), number, dtype=torch.float64)).item()
    assert code == kept[int(number * len(kept))]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"temperature": 0.0},
            "temperature 0.0 must be a finite number greater than 0; use top_k=1 for greedy",
        ),
        ({"temperature": float("inf")}, "temperature inf must be a finite number greater than 0"),
        ({"temperature": float("nan")}, "temperature nan must be a finite number greater than 0"),
        ({"top_k": 0}, "top_k is 0; allowed: 1 or more"),
        ({"top_p": 0.0}, "top_p is 0.0; allowed: above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5; allowed: above 0 and at most 1"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SamplingConfig(**settings)


def test_a_completion_is_a_function_of_the_seed_the_image_and_its_number() -> None:
    """Equal prompts are completed differently, whatever the batch."""
    recipe = registry.resolve("igpt.digits", assignments=["depth=1", "width=16"]).recipe
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    model, images = PretrainModel(network, recipe.objective), torch.zeros(3, 3, 8, 8, dtype=torch.uint8)

    def completed(batch_size: int) -> torch.Tensor:
        prompt = make_prompt(images, network.codec, rows=4, mask=None, each=2, seed=7)
        found = complete_images(model, prompt, sampling=SamplingConfig(), seed=7, batch_size=batch_size)
        return found.images.flatten(0, 1)

    found = completed(2)
    assert torch.equal(completed(6), found)
    assert len(found.flatten(1).unique(dim=0)) == 6
    for number, (image, sample) in enumerate((i, j) for i in range(3) for j in range(2)):
        drawn = torch.rand(64, 1, dtype=torch.float64, generator=generator(7, f"complete/{sample}", image))
        [alone] = fill_in(model, images[:1], start=32, sampling=SamplingConfig(), uniform=drawn[None])
        assert torch.equal(found[number], alone), (image, sample)
