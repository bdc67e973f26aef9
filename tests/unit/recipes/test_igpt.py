"""Every Image GPT recipe against the paper's section 3, table 5 and the released code's heads."""

from typing import NamedTuple

import pytest

from isopix.recipes import registry


class Published(NamedTuple):
    depth: int
    width: int
    heads: int
    lr: float
    side: int = 32
    steps: int = 1_000_000
    batch_size: int = 128


TABLE = {
    "igpt.s": Published(24, 512, 8, 0.003),
    "igpt.m": Published(36, 1024, 8, 0.003),
    "igpt.l": Published(48, 1536, 16, 0.001),
    "igpt.xl": Published(60, 3072, 24, 0.0003, side=64, steps=2_000_000, batch_size=64),
    "igpt.s_bert": Published(24, 512, 8, 0.01),
    "igpt.m_bert": Published(36, 1024, 8, 0.003),
    "igpt.l_bert": Published(48, 1536, 16, 0.001),
}


@pytest.mark.parametrize("name", TABLE)
def test_sizes_and_learning_rates_are_the_published_ones(name: str) -> None:
    recipe = registry.find(name)
    found = Published(
        recipe.model.depth,
        recipe.model.width,
        recipe.model.block.heads,
        recipe.train.optimizer.lr,
        recipe.data.rows,
        recipe.train.steps,
        recipe.train.batch_size,
    )
    assert found == TABLE[name]
    assert recipe.data.cols == recipe.data.rows


@pytest.mark.parametrize("name", TABLE)
def test_what_all_sizes_share(name: str) -> None:
    recipe = registry.find(name)
    assert (recipe.train.optimizer.beta1, recipe.train.optimizer.beta2) == (0.9, 0.95)
    assert (recipe.train.schedule.kind, recipe.train.schedule.warmup_epochs) == ("warmup_cosine", 1.0)
    mlp = recipe.model.block.mlp
    assert (recipe.model.codec.num_colors, mlp.expansion, mlp.bias) == (512, 4, False)
    assert not recipe.model.block.attention_bias
    assert (recipe.data.source, recipe.data.augment.kind) == ("imagenet-1k", "scale_crop")
    if name.endswith("_bert"):
        assert (recipe.objective.kind, recipe.objective.mask.ratio) == ("masked", 0.15)
    else:
        assert recipe.objective.kind == "autoregressive"
