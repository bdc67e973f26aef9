"""Image GPT (Chen et al. 2020): published numbers of the released models."""

from typing import NamedTuple

from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.papers.published import PublishedResult
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe


def _test_loss(recipe: Recipe, nats: float) -> PublishedResult:
    return PublishedResult(
        recipe=recipe,
        protocol="ImageNet's validation images, shorter side 224, center crop, then 32×32; all positions",
        value=nats,
        unit="nats per pixel",
        source="the README of OpenAI's image-gpt",
        codec_fingerprint=OPENAI_FINGERPRINT,
        step=1_000_000,
    )


# Of the autoregressive models.
TEST_LOSSES = (_test_loss(igpt.s(), 2.0895), _test_loss(igpt.m(), 2.0614), _test_loss(igpt.l(), 2.0466))


class PublishedLowData(NamedTuple):
    """Test error on CIFAR-10 in per cent by number of labels: mean and standard deviation of five subsets."""

    method: str
    errors: dict[int, tuple[float, float]]


# iGPT table 4: what was published with 40, 250 and 4,000 labeled images of CIFAR-10.
LOW_DATA = (
    PublishedLowData("Mean Teacher", {250: (32.3, 2.3), 4000: (9.2, 0.2)}),
    PublishedLowData("MixMatch", {40: (47.5, 11.5), 250: (11.0, 0.9), 4000: (6.4, 0.1)}),
    PublishedLowData("iGPT-L", {40: (26.8, 1.5), 250: (12.4, 0.6), 4000: (5.7, 0.1)}),
    PublishedLowData("UDA", {40: (29.0, 5.9), 250: (8.8, 1.1), 4000: (4.9, 0.2)}),
    PublishedLowData("FixMatch RA", {40: (13.8, 3.4), 250: (5.1, 0.7), 4000: (4.3, 0.1)}),
    PublishedLowData("FixMatch CTA", {40: (11.4, 3.4), 250: (5.1, 0.3), 4000: (4.3, 0.2)}),
)
