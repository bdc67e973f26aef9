import pytest

from isopix.data.augment import ScaleCrop
from isopix.recipes import catalogue

# Chen et al. 2020, section 3.3 and table 5; heads of the released code (XL's were never published).
# depth, width, heads, learning rate, steps, batch, side
TABLE = {
    "igpt.s": (24, 512, 8, 0.003, 1_000_000, 128, 32),
    "igpt.m": (36, 1024, 8, 0.003, 1_000_000, 128, 32),
    "igpt.l": (48, 1536, 16, 0.001, 1_000_000, 128, 32),
    "igpt.xl": (60, 3072, 24, 0.0003, 2_000_000, 64, 64),
    "igpt.s_bert": (24, 512, 8, 0.01, 1_000_000, 128, 32),
    "igpt.m_bert": (36, 1024, 8, 0.003, 1_000_000, 128, 32),
    "igpt.l_bert": (48, 1536, 16, 0.001, 1_000_000, 128, 32),
}


@pytest.mark.parametrize("name", TABLE)
def test_sizes_and_rates_are_the_papers(name: str) -> None:
    recipe = catalogue.find(name)
    found = (recipe.depth, recipe.width, recipe.block.heads, recipe.optimiser.learning_rate)
    found += (recipe.steps, recipe.batch, recipe.data.rows)
    assert found == TABLE[name]
    assert recipe.data.cols == recipe.data.rows


@pytest.mark.parametrize("name", TABLE)
def test_what_all_sizes_share_is_the_papers(name: str) -> None:
    recipe = catalogue.find(name)
    assert recipe.codec.colours == 512
    assert recipe.optimiser.kind == "adam"
    assert (recipe.optimiser.beta1, recipe.optimiser.beta2) == (0.9, 0.95)
    assert (recipe.schedule.kind, recipe.schedule.warmup_epochs) == ("warmup_cosine", 1.0)
    assert recipe.data.source == "imagenet-1k"
    assert recipe.data.augment == ScaleCrop()
    assert recipe.data.augment.kind == "imagenet"


@pytest.mark.parametrize("name", TABLE)
def test_the_objective_is_the_names(name: str) -> None:
    objective = catalogue.find(name).objective
    if name.endswith("_bert"):
        assert (objective.kind, objective.mask.kind, objective.mask.ratio) == ("masked", "independent", 0.15)
    else:
        assert objective.kind == "autoregressive"
