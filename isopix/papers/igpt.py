"""Image GPT (Chen et al. 2020): published numbers of the released models."""

from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.papers.claim import Claim
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe


def _test_loss(recipe: Recipe, nats: float) -> Claim:
    return Claim(
        recipe=recipe,
        protocol="ImageNet's validation images, shorter side 224, centre crop, then 32×32; all positions",
        value=nats,
        unit="nats a pixel",
        source="the README of OpenAI's image-gpt",
        palette=OPENAI_FINGERPRINT,
        step=1_000_000,
    )


# Of the autoregressive models.
TEST_LOSSES = (_test_loss(igpt.s(), 2.0895), _test_loss(igpt.m(), 2.0614), _test_loss(igpt.l(), 2.0466))
