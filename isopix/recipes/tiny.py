"""Small Image GPTs for two CPU cores: a first look, tests and the documentation.

Command:  isopix pretrain igpt.digits --out runs/digits
          isopix pretrain igpt.translated_digits --out runs/translated-digits
          isopix pretrain igpt.tiny --data cifar10 --out runs/tiny
Cost:     tiny: 25 minutes on one CPU core; the others: a few minutes
Expected: digits: about 1.4 nats per pixel on the test set; translated_digits: 0.49 nats and a linear-probe
          accuracy of 69 to 76 % for three seeds (untrained 26 %); with _bert 0.53 nats and 31 to 43 %
"""

from dataclasses import replace

from isopix.codecs.palette_spec import PaletteSpec
from isopix.data.dataset import DataConfig
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.spec import ModelSpec
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe
from isopix.train.config import TrainConfig
from isopix.train.optim import Adam

CIFAR_AUGMENT = "data.augment=pad_crop_flip"  # iGPT section 3.1


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
        finetune_overrides=(CIFAR_AUGMENT,),
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
