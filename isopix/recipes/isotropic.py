"""Small isotropic networks (Cazenavette and Lucey 2021): the study of inductive biases.

Command:  isopix reproduce isotropic.study --out studies/bias   (all of a scale)
          isopix pretrain isotropic.conv-pix2vec-3 --data cifar10 --out runs/conv-pix2vec-3
          isopix pretrain isotropic.translated_digits-conv-pix2vec-3 --out runs/conv
Cost:     paper: 51 epochs of CIFAR-10 per network; small: minutes per network on a CPU core, about ten with
          six blocks; tiny, translated_digits: half a minute to two minutes per network
Expected: the paper has no numeric table; its ten claims are tested on the finished study

A recipe is a block, an encoding of the three channels and a depth, in a grid of all combinations. All have
width 128, predict the 3 x 256 levels of 15% of the pixels, and train with Adam: one epoch of warmup to lr
0.01, then 50 epochs of cosine decay, in batches of 128 (the paper: 32 for four heads, for memory). Hidden
layers are not widened: a mixer has as many hidden units as positions, and an MLP as its width, so that
convolution and mixer cost the same. `block.units=128` gives a mixer the convolution's parameters,
`mlp.expansion=4` wide MLPs.

Not in the paper, and our choice: layer norm's epsilon 1e-5; 64 Fourier frequencies per channel; Keras's
initialization and Adam (0.999, 1e-7), as its code is in Keras. The paper mentions no position embeddings:
convolutions and mixers have none here, as their borders and weights encode positions; the transformer, which
would see a set of colors without any, learns them as Image GPT does. `positions=none` is the literal reading,
and `objective.mask=per_channel` masks single channels.
"""

from dataclasses import replace
from itertools import product

from isopix.codecs.patches import BytesSpec
from isopix.data.dataset import DataConfig
from isopix.model.blocks.convolution import ConvolutionSpec
from isopix.model.blocks.mixer import MixerSpec
from isopix.model.blocks.transformer import BlockSpec, TransformerSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec
from isopix.model.positions import LearnedPositionEmbeddingSpec, NoPositionEmbeddingSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems.pixels import (
    FourierPixelEmbeddingSpec,
    LinearPixelEmbeddingSpec,
    StemSpec,
    TokenEmbeddingSpec,
)
from isopix.objectives.objectives import Masked
from isopix.recipes.recipe import Recipe
from isopix.train.config import Adam, TrainConfig

EPOCH = 352  # steps: 45,000 of CIFAR-10's training images in batches of 128


def _transformer(heads: int) -> TransformerSpec:
    mlp = TwoLayerMLPSpec(expansion=1)
    return TransformerSpec(heads=heads, attention_bias=True, norm=LayerNormSpec(), mlp=mlp)


BLOCKS: dict[str, BlockSpec] = {
    "conv": ConvolutionSpec(),
    "mixer": MixerSpec(),
    "transformer-1": _transformer(1),
    "transformer-4": _transformer(4),
    "transformer-1-nopos": _transformer(1),  # without position embeddings
}
ENCODINGS: dict[str, StemSpec] = {
    "pix2vec": TokenEmbeddingSpec(),
    "fourier": FourierPixelEmbeddingSpec(),
    "continuous": LinearPixelEmbeddingSpec(),
}
DEPTHS = (1, 3, 6, 12)
CELLS = list(product(BLOCKS, ENCODINGS, DEPTHS))


def paper(block: str, encoding: str, depth: int) -> Recipe:
    """Full size: 32x32, width 128, 51 epochs of CIFAR-10; BLOCK, ENCODING and DEPTH as in tiny."""
    encoded = block in ("transformer-1", "transformer-4")
    return Recipe(
        name=f"isotropic.{block}-{encoding}-{depth}",
        model=ModelSpec(
            codec=BytesSpec(),
            stem=ENCODINGS[encoding],
            positions=LearnedPositionEmbeddingSpec() if encoded else NoPositionEmbeddingSpec(),
            block=BLOCKS[block],
            depth=depth,
            width=128,
            init="keras",
        ),
        data=DataConfig(source="cifar10"),
        objective=Masked(),
        train=TrainConfig(
            steps=51 * EPOCH,
            optimizer=Adam(lr=0.01, beta2=0.999, epsilon=1e-7),
            evaluate_every=EPOCH,
            evaluate_images=5000,
            checkpoint_every=5 * EPOCH,
        ),
        finetune_overrides=("data.augment=pad_crop_flip",),  # as iGPT on CIFAR; the paper does not fine-tune
    )


def small(block: str, encoding: str, depth: int) -> Recipe:
    """16x16, width 64, 1,500 steps of 64 images of CIFAR-10, for two CPU cores; names as in tiny."""
    return paper(block, encoding, depth).updated(
        name=f"isotropic.small-{block}-{encoding}-{depth}",
        rows=16,
        cols=16,
        width=64,
        steps=1500,
        batch_size=64,
        evaluate_every=750,
        num_test_images=2000,
        checkpoint_every=250,
    )


def tiny(block: str, encoding: str, depth: int) -> Recipe:
    """16x16, width 32, a part of CIFAR-10, for two CPU cores. BLOCK is conv, mixer, transformer-1 or
    transformer-4 (heads), or transformer-1-nopos (no position embeddings); ENCODING is pix2vec, fourier or
    continuous; DEPTH is 1, 3, 6 or 12.
    """
    return small(block, encoding, depth).updated(
        name=f"isotropic.tiny-{block}-{encoding}-{depth}",
        limit=10_000,
        width=32,
        steps=216,
        precision="fp32",
        evaluate_every=72,
        evaluate_images=512,
        num_test_images=1000,
        checkpoint_every=108,
    )


def translated_digits(block: str, encoding: str, depth: int) -> Recipe:
    """14x14, width 32, digits at random places, for two CPU cores; BLOCK, ENCODING and DEPTH as in tiny."""
    recipe = tiny(block, encoding, depth)
    return recipe.updated(
        name=f"isotropic.translated_digits-{block}-{encoding}-{depth}",
        data=DataConfig(source="translated-digits", rows=14, cols=14),
        optimizer=replace(recipe.train.optimizer, lr=0.005),
        precision=None,
        steps=600,
        evaluate_every=150,
        evaluate_images=150,
        num_test_images=10_000,
        checkpoint_every=200,
    )
