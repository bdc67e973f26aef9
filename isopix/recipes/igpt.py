"""Image GPT (Chen et al. 2020): the models of section 3.3 with the learning rates of table 5, and small ones.

Command:  isopix pretrain igpt.s --data imagenet-1k --out runs/igpt-s
          isopix pretrain igpt.tiny --data cifar10 --out runs/tiny
          isopix pretrain igpt.digits --out runs/digits
Cost:     1 M steps of 128 images at 32x32 (XL: 2 M of 64 at 64x64), about 100 epochs of ImageNet;
          FLOPs, memory and time on a device: isopix plan igpt.s
          tiny: 25 minutes on one CPU core; digits and translated_digits: a few minutes
Expected: linear-probe accuracy on ImageNet (table 2): L 60.3% at 32x32, XL 68.7% at 64x64 (5 layers
          concatenated: 72.0%)
          digits: about 1.4 nats per pixel on the test set; translated_digits: 0.49 nats and a linear-probe
          accuracy of 69 to 76% for three seeds (untrained 26%); with _bert 0.53 nats and 31 to 43%

Differences: the number of heads of S, M and L is the released code's; XL's was never published, and ours is
24 (128 channels each). The paper's XL also trained on 100 million web images without augmentation; ours
trains on ImageNet alone. The paper chose float32 over float16 for small gains in representation quality
(appendix A.1); ours computes matrix products in bf16 on devices with instructions for it, with weights,
optimizer state, logits and losses in float32 (docs/igpt.md has the cost; `precision=fp32` is the paper's
choice). `*_bert` are the same networks with the masked objective, without the start token.
"""

from dataclasses import replace

from isopix.codecs.base import Codec
from isopix.codecs.palette_spec import OPENAI_FINGERPRINT, PaletteSpec
from isopix.core.config import to_dict
from isopix.data.augment import ScaleCrop
from isopix.data.dataset import DataConfig
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.spec import ModelSpec
from isopix.objectives.objectives import Masked
from isopix.recipes.published import TEST_LOSSES, PublishedLoss
from isopix.recipes.recipe import NETWORK, PAPERS, Recipe
from isopix.train.config import Adam, TrainConfig


def s() -> Recipe:
    """iGPT-S, 32x32: 24 blocks of width 512; 76,571,648 parameters."""
    return _igpt("igpt.s", depth=24, width=512, heads=8, lr=0.003)


def m() -> Recipe:
    """iGPT-M, 32x32: 36 blocks of width 1024; 455,157,760 parameters."""
    return _igpt("igpt.m", depth=36, width=1024, heads=8, lr=0.003)


def l() -> Recipe:  # noqa: E743  the paper's name of the size
    """iGPT-L, 32x32: 48 blocks of width 1536; 1,362,250,752 parameters (lr 0.01 at 48x48, table 5)."""
    return _igpt("igpt.l", depth=48, width=1536, heads=16, lr=0.001)


def xl() -> Recipe:
    """iGPT-XL, 64x64: 60 blocks of width 3072; 6,810,875,904 parameters (table 2: 6,801 M at 32x32)."""
    recipe = _igpt("igpt.xl", depth=60, width=3072, heads=24, lr=0.0003)
    return recipe.updated(rows=64, cols=64, steps=2_000_000, batch_size=64)


def s_bert() -> Recipe:
    """iGPT-S with the masked objective: 76,571,136 parameters."""
    return _bert(s(), lr=0.01)


def m_bert() -> Recipe:
    """iGPT-M with the masked objective: 455,156,736 parameters."""
    return _bert(m(), lr=0.003)


def l_bert() -> Recipe:
    """iGPT-L with the masked objective: 1,362,249,216 parameters."""
    return _bert(l(), lr=0.001)


def tiny() -> Recipe:
    """Autoregressive, 32x32: 4 blocks of width 128, 512 colors; 25 CPU-minutes."""
    return Recipe(
        name="igpt.tiny",
        model=ModelSpec(depth=4, width=128, block=TransformerSpec(heads=2)),
        data=DataConfig(source="cifar10"),
        train=TrainConfig(
            optimizer=Adam(lr=0.003),
            steps=1000,
            batch_size=16,
            evaluate_every=250,
            evaluate_images=256,
            num_test_images=2000,
            checkpoint_every=100,
        ),
        finetune_overrides=("data.augment=pad_crop_flip",),  # iGPT section 3.1
    )


def tiny_bert() -> Recipe:
    """igpt.tiny with the masked objective."""
    return replace(tiny(), name="igpt.tiny_bert", objective=Masked())


def digits() -> Recipe:
    """Autoregressive, 8x8: 4 blocks of width 64, the 17 gray levels of the bundled digits."""
    return Recipe(
        name="igpt.digits",
        model=ModelSpec(codec=PaletteSpec(num_colors=17), depth=4, width=64, block=TransformerSpec(heads=2)),
        data=DataConfig(source="digits", rows=8, cols=8),
        train=TrainConfig(
            optimizer=Adam(lr=0.003),
            steps=400,
            batch_size=128,
            precision="fp32",
            evaluate_every=50,
            evaluate_images=None,
            checkpoint_every=100,
        ),
    )


def digits_bert() -> Recipe:
    """igpt.digits with the masked objective."""
    return replace(digits(), name="igpt.digits_bert", objective=Masked())


def translated_digits() -> Recipe:
    """Autoregressive, 14x14: igpt.digits on digits at random places."""
    return digits().updated(
        name="igpt.translated_digits",
        data=DataConfig(source="translated-digits", rows=14, cols=14),
        optimizer=Adam(lr=0.005),
        max_grad_norm=1.0,
        steps=800,
        batch_size=32,
        evaluate_every=100,
        evaluate_images=150,
        checkpoint_every=200,
    )


def translated_digits_bert() -> Recipe:
    """igpt.translated_digits with the masked objective."""
    return replace(translated_digits(), name="igpt.translated_digits_bert", objective=Masked())


def _igpt(name: str, *, depth: int, width: int, heads: int, lr: float) -> Recipe:
    return Recipe(
        name=name,
        model=ModelSpec(depth=depth, width=width, block=TransformerSpec(heads=heads)),
        data=DataConfig(source="imagenet-1k", augment=ScaleCrop()),
        train=TrainConfig(optimizer=Adam(lr=lr)),
    )


def _bert(recipe: Recipe, *, lr: float) -> Recipe:
    return recipe.updated(name=f"{recipe.name}_bert", objective=Masked(), optimizer=Adam(lr=lr))


def published_loss(recipe: Recipe, codec: Codec) -> PublishedLoss | None:
    """Return the published test loss of this network with this palette, if any."""
    if codec.fingerprint() != OPENAI_FINGERPRINT:
        return None
    sizes = {size.name: size for size in (s(), m(), l())}
    same = (name for name in TEST_LOSSES if _network(sizes[name]) == _network(recipe))
    return TEST_LOSSES.get(next(same, ""))


def _network(recipe: Recipe) -> tuple[object, ...]:
    """Return the settings that define the function of the weights, but the codec's."""
    values = to_dict(recipe)
    del values["model"]["codec"]
    return (*(values[name] for name in NETWORK), recipe.grid)


SMALL = (digits, digits_bert, translated_digits, translated_digits_bert, tiny, tiny_bert)
PAPERS["igpt"] = (*SMALL, s, s_bert, m, m_bert, l, l_bert, xl)
