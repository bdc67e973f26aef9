"""The laws over the parts of `examples/extend`, which are registered from outside the package."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isopix.codecs.palette_spec import PaletteSpec
from isopix.core import registry
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.masks import MaskSpec
from isopix.objectives.objectives import Autoregressive, Masked
from isopix.recipes.recipe import Recipe
from tests.laws import cases, test_generation, test_learning, test_visibility
from tests.registry import restored_registry

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "extend").glob("*.py"))


def extensions() -> list[Recipe]:
    """A case for each example that changes the network or the objective, with every objective that fits."""
    block = TransformerSpec(heads=2, mlp=registry.kinds("mlp")["gated"]())
    codec, stem = registry.kinds("codec")["gray4"](), registry.kinds("stem")["two_convs"](channels=8)
    palette = PaletteSpec(num_colors=32)
    center = registry.kinds("mask")["center"]()
    assert isinstance(center, MaskSpec)
    objectives = [Autoregressive(), Masked(mask=cases.THIRD), Masked(mask=center)]
    objectives += [registry.kinds("objective")["colorization"]()]
    return [
        cases.LAW.updated(objective=objective, **changes)
        for objective in objectives
        for changes in (
            {"block": block, "codec": palette},
            {"block": registry.kinds("block")["decay"](), "codec": palette},
            {"codec": codec},
            {"stem": stem, "codec": palette},
        )
    ]


with restored_registry():
    for path in EXAMPLES:
        registry.load_plugin(path)
    CASES = [case.updated(data=cases.CASES[0].data) for case in extensions()]


SAMPLING = [case for case in CASES if case.objective.can_sample]
MASKED = [case for case in CASES if case.objective.masks_input]
LAWS: dict[Callable[..., None], list[Recipe]] = {
    test_learning.test_untrained_loss_is_that_of_uniform_codes_or_of_the_middle_of_the_range: CASES,
    test_learning.test_learns_one_batch_and_every_parameter_gets_a_gradient: CASES,
    test_learning.test_losses_and_gradients_of_chunks_add_up_to_those_of_the_batch: CASES,
    test_learning.test_permuting_the_batch_permutes_the_outputs: CASES,
    test_visibility.test_a_block_of_zeros_is_the_identity: CASES,
    test_visibility.test_no_position_sees_its_own_target: [*SAMPLING, *MASKED],
    test_generation.test_reconstruction_changes_masked_pixels_only: MASKED,
}


@pytest.mark.parametrize(
    ("law", "recipe"),
    [
        pytest.param(law, recipe, id=f"{law.__name__}-{cases.title(recipe)}")
        for law, recipes in LAWS.items()
        for recipe in recipes
    ],
)
def test_a_law_holds(law: Callable[[Recipe], None], recipe: Recipe) -> None:
    law(recipe)


@pytest.mark.parametrize("recipe", SAMPLING, ids=cases.title)
def test_cached_logits_equal_one_full_forward_pass(recipe: Recipe) -> None:
    test_generation.test_cached_logits_equal_one_full_forward_pass(recipe, 0, 1)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_documentation_shows_the_examples_as_they_are(path: Path) -> None:
    page = (EXAMPLES[0].parents[2] / "docs" / "extend.md").read_text()
    shown = f"<!-- example: {path.name} -->\n```python\n{path.read_text().rstrip()}\n```\n<!-- end -->"
    assert shown in page or f"[`{path.name}`](../examples/extend/{path.name})" in page
