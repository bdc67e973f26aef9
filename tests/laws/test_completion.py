"""Laws of completion: only what is hidden changes, as a function of the seed and the image alone."""

import pytest
import torch

from isopix.generate.complete import Prompt, complete_images, completion_steps
from isopix.generate.mask import completion_mask, hidden_pixels
from isopix.generate.results import DEFAULT_PASSES, Passes, SamplingConfig
from isopix.objectives.base import PretrainModel
from isopix.recipes.recipe import Recipe
from tests.laws import cases

COMPLETING = [
    case
    for case in cases.CASES
    if (case.objective.can_sample or case.objective.masks_input) and case.model.head.categorical
]
completing = pytest.mark.parametrize("recipe", COMPLETING, ids=cases.title)
SAMPLING = SamplingConfig(temperature=0.9)


def prompt_of(recipe: Recipe, model: PretrainModel, count: int) -> Prompt:
    passes = DEFAULT_PASSES if model.objective.can_sample else Passes(iterations=3)
    hidden = completion_mask("random:0.5", model.network.codec, count)
    return Prompt(cases.images(recipe, count), hidden, 2, SAMPLING, passes)


@completing
def test_only_hidden_positions_change(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    network, prompt = model.network, prompt_of(recipe, model, 2)
    found = complete_images(model, prompt)
    read = network.codec.decode(network.codec.encode(prompt.images))
    shown = read if recipe.objective.can_sample else network.visible_pixels(prompt.images)
    assert torch.equal(found.mask, hidden_pixels(prompt.hidden, prompt.images))
    kept = (found.images == shown[:, None]) | found.mask[:, None, None]
    assert kept.all()
    codes = network.codec.encode(found.images.flatten(0, 1)).unflatten(0, (2, 2))
    same = codes == network.codec.encode(prompt.images)[:, None]
    assert (same | prompt.hidden[:, None]).all()
    assert not same.all()
    assert (found.log_likelihood < 0).all()


@completing
def test_a_completion_is_a_function_of_the_seed_the_image_and_its_number(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    model.network.double()  # in which a product of matrices of another size rounds to the same code
    prompt = prompt_of(recipe, model, 3)
    whole = complete_images(model, prompt, batch_size=6)
    for size in (1, 2, 5):
        split = complete_images(model, prompt, batch_size=size)
        assert torch.equal(split.images, whole.images)
        torch.testing.assert_close(split.log_likelihood, whole.log_likelihood)
    fewer = complete_images(model, Prompt(prompt.images[:2], prompt.hidden[:2], 1, *prompt[3:]))
    assert torch.equal(fewer.images, whole.images[:2, :1])
    assert not torch.equal(complete_images(model, prompt._replace(seed=1)).images, whole.images)


@completing
def test_the_last_step_is_the_completion_and_none_shows_what_is_hidden(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    prompt = prompt_of(recipe, model, 2)
    steps = list(completion_steps(model, prompt))
    whole = complete_images(model, prompt)
    assert torch.equal(steps[-1].images, whole.images)
    torch.testing.assert_close(steps[-1].log_likelihood, whole.log_likelihood)
    assert not steps[-1].remaining.any()
    assert [step.done for step in steps] == sorted({step.done for step in steps})
    assert steps[-1].done == steps[-1].total
    for step in steps:
        missing = step.remaining[:, :, None].expand_as(step.images)
        assert (step.images[missing] == 128).all()


@completing
def test_what_is_hidden_does_not_matter(recipe: Recipe) -> None:
    model = cases.busy_model(recipe)
    prompt = prompt_of(recipe, model, 2)
    pixels = hidden_pixels(prompt.hidden, prompt.images)[:, None]
    changed = prompt._replace(images=torch.where(pixels, 255 - prompt.images, prompt.images))
    assert torch.equal(complete_images(model, changed).images, complete_images(model, prompt).images)
