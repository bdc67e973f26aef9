"""The recipes against their papers: sizes, parameters to the last one, FLOPs, and how they are trained."""

import pytest

from isopix.core.random import generator
from isopix.recipes import isotropic, registry
from isopix.recipes.cost import recipe_cost
from tests.unit.recipes.test_cost import resolved

# iGPT section 3 and table 2, with positions of the stated resolution.
IGPT = {
    "igpt.s": 76_571_648,
    "igpt.m": 455_157_760,
    "igpt.l": 1_362_250_752,
    "igpt.xl": 6_810_875_904,
    "igpt.s_bert": 76_571_648 - 512,
    "igpt.m_bert": 455_157_760 - 1024,
    "igpt.l_bert": 1_362_250_752 - 1536,
}


@pytest.mark.parametrize("name", IGPT)
def test_image_gpts_have_the_published_parameters(name: str) -> None:
    assert recipe_cost(registry.find(name)).parameters == IGPT[name]


def test_parameters_and_flops_that_papers_print() -> None:
    """XL at 32 x 32 as in table 2; S by 3 * (2 * 12 L d^2 + 2 V d + 2 L (n + 1) d) * n; ViT's table 1 without
    the head of classes, where L's 307 million are 304 when they are counted.
    """
    assert recipe_cost(resolved("igpt.xl", "data.size=32")).parameters == 6_801_438_720
    n, d, depth, colors = 1024, 512, 24, 512
    flops = 3 * (24 * depth * d * d + 2 * colors * d + 2 * depth * (n + 1) * d) * n
    assert recipe_cost(registry.find("igpt.s")).training_flops == flops
    for name, millions in (("vit.l16", 304), ("vit.h14", 632)):
        assert recipe_cost(registry.find(name)).parameters / 1e6 == pytest.approx(millions, rel=0.02)
    d = 768
    blocks, stem, positions, tokens = 12 * (12 * d * d + 13 * d), 768 * d + d, 196 * d, 2 * d
    counted = blocks + stem + positions + tokens + 2 * d + 512 * d
    cost, n = recipe_cost(registry.find("vit.b16")), 196 + 1  # with the class token
    assert cost.parameters == counted
    assert cost.forward_flops == 12 * n * (24 * d * d + 4 * n * d) + 196 * 2 * d * d + 98 * 2 * 512 * d


def test_patchformer_masks_116_of_196_patches() -> None:
    recipe = registry.find("patchformer.base")
    mask = recipe.objective.mask.sample(1, recipe.grid, 64, generator(0, "mask"))
    assert (recipe.grid.positions, int(mask.sum())) == (196, 116)


WIDTH, POSITIONS = 128, 1024
TRANSFORMERS = ("transformer-1", "transformer-4", "transformer-1-nopos")
PARAMETERS = {"conv": 295_680, "mixer": 2_132_736, **dict.fromkeys(TRANSFORMERS, 99_584)}
FLOPS = {"conv": 589_824, "mixer": 589_824, **dict.fromkeys(TRANSFORMERS, 720_896)}
# Three tables; or a matrix over 3 x 128 features, or over 3 numbers, with a bias for each channel.
STEMS = {
    "pix2vec": 3 * 256 * WIDTH,
    "fourier": 3 * 128 * WIDTH + 3 * WIDTH,
    "continuous": 3 * WIDTH + 3 * WIDTH,
}


@pytest.mark.parametrize(("block", "encoding", "depth"), isotropic.CELLS)
def test_isotropic_networks_are_counted_by_hand(block: str, encoding: str, depth: int) -> None:
    """Blocks, encoding, a last norm, a head without a bias, and a transformer's positions."""
    cost = recipe_cost(registry.find(f"isotropic.{block}-{encoding}-{depth}"))
    positions = POSITIONS * WIDTH if block in ("transformer-1", "transformer-4") else 0
    rest = STEMS[encoding] + 2 * WIDTH + WIDTH * 768 + positions
    assert cost.parameters == depth * PARAMETERS[block] + rest
    head = 2 * WIDTH * 768 * round(0.15 * POSITIONS)
    assert cost.forward_flops == depth * POSITIONS * FLOPS[block] + head


WHOLE = ["codec=full_patch", "codec.patch_size=8", "head=regression"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["accumulate=3"], "train.batch_size 32 is not a multiple of accumulate 3"),
        (["block=axial"], "class_token is not possible with block axial, which needs the whole grid"),
        (["compile=true", "objective.corruption=drop"], "compile=true is not possible with objective.corr"),
        (["objective.mask=per_channel"], "objective.mask per_channel masks single codes, which corruption"),
        (["data.rows=60"], "images of 60 x 64 pixels cannot be cut into patches of 8 x 8"),
        (["stem=fourier_pixel_embedding"], "need positions of one pixel; this codec's are 8 x 8"),
        (["objective.mask=block", "data.rows=56"], "7 x 8 positions cannot be cut into squares of 2 x 2"),
        (["head=regression"], "head regression needs codes that are brightness levels; the 512 codes"),
        ([*WHOLE, "objective.label_smoothing=0.01"], "head regression gives no probabilities of codes"),
        ([*WHOLE, "head=upsampling"], "an upsampling head needs 4 x 4, 8 x 8, 16 x 16 .. codes"),
        (["block.heads=3"], "width 128 is not a multiple of heads 3"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe_cost(resolved("vit.tiny", *words))
