"""Outputs of heads, their losses, and their most likely codes."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.codecs.patches import FullPatchSpec, GrayThumbnailSpec, MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.heads import (
    ClassHead,
    HeadSpec,
    Likelihood,
    LinearHeadSpec,
    RegressionHeadSpec,
    UpsamplingHeadSpec,
)

GRID = Grid(2, 3)
GRAY = GrayThumbnailSpec(patch_size=8).build(GRID)
PATCH = FullPatchSpec(patch_size=4).build(GRID)
EXACT = {"rtol": 1e-12, "atol": 1e-12}
ORDERED = [PATCH, GRAY]


def tokens(count: int = 5) -> Tensor:
    return torch.randn(2, count, 12, generator=generator(0, "tokens"), dtype=torch.float64)


def targets(codec: Codec, count: int = 5) -> Tensor:
    return torch.randint(codec.vocab_size, (2, count, codec.num_codes), generator=generator(0, "answers"))


def drawn(head: HeadSpec, codec: Codec) -> Likelihood:
    """With matrices that are not zero."""
    built = head.build(codec, 12).double()
    torch.nn.init.normal_(built.project.weight, generator=generator(0, "weights"))
    return built


def test_an_upsampling_head_predicts_every_pixel_of_a_thumbnail() -> None:
    head = UpsamplingHeadSpec(channels=16).build(GRAY, 12)
    assert head(tokens().float()).shape == (2, 5, 64, 4)
    assert [step.conv1.weight.shape[:2] for step in head.steps[:-1]] == [(8, 16), (4, 8)]
    with pytest.raises(ValueError, match=r"needs 4 x 4, 8 x 8, .* codes per position; this codec has 1"):
        UpsamplingHeadSpec().build(MeanColorSpec(patch_size=8).build(GRID), 12)


def test_flops_are_of_one_position() -> None:
    assert LinearHeadSpec().flops_per_token(GRAY, 12) == 2 * 12 * 256
    first = 16 * 4 * 12
    doubled = [16 * (16 * 8 + 9 * (16 * 8 + 8 * 8)), 64 * (8 * 4 + 9 * (8 * 4 + 4 * 4))]
    assert UpsamplingHeadSpec(channels=16).flops_per_token(GRAY, 12) == 2 * (
        first + sum(doubled) + 64 * 4 * 4
    )
    assert RegressionHeadSpec().flops_per_token(PATCH, 12) == 2 * 12 * 48


@pytest.mark.parametrize(
    "head", [LinearHeadSpec(), UpsamplingHeadSpec(channels=16)], ids=["linear", "upsampling"]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_categorical_loss_is_the_cross_entropy_with_soft_labels(head: HeadSpec, smoothing: float) -> None:
    built, given = drawn(head, GRAY), targets(GRAY)
    soft = F.one_hot(given, 4).double() * (1 - smoothing) + smoothing / 4
    log_probs = built(tokens()).log_softmax(-1)
    torch.testing.assert_close(built.nll(tokens(), given, smoothing), -(soft * log_probs).sum(-1), **EXACT)
    assert torch.equal(built.mode(tokens()), built(tokens()).max(-1).indices)


@pytest.mark.parametrize("codec", ORDERED, ids=["bytes", "grays"])
def test_a_regression_loss_is_that_of_a_gaussian_of_unit_variance_up_to_its_constant(codec: Codec) -> None:
    built, given = drawn(RegressionHeadSpec(), codec), targets(codec)
    scaled = 2 * given.double() / (codec.vocab_size - 1) - 1
    expected = -Normal(built(tokens()), 1.0).log_prob(scaled) - math.log(2 * math.pi) / 2
    torch.testing.assert_close(built.nll(tokens(), given), expected, **EXACT)


@pytest.mark.parametrize("codec", ORDERED, ids=["bytes", "grays"])
def test_the_mode_of_a_regression_is_the_code_nearest_to_the_mean_within_the_range(codec: Codec) -> None:
    """No other code has a smaller loss."""
    built = drawn(RegressionHeadSpec(), codec)
    mode, means = built.mode(tokens()), built(tokens())
    distances = (torch.linspace(-1, 1, codec.vocab_size, dtype=torch.float64) - means[..., None]).abs()
    assert torch.equal(mode, distances.argmin(-1))
    assert {0, codec.vocab_size - 1} <= set(mode.flatten().tolist())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("residual_block", [False, True])
def test_a_class_head_of_another_type_takes_float32_features(
    dtype: torch.dtype, residual_block: bool
) -> None:
    torch.manual_seed(0)
    head = ClassHead(16, 3, residual_block=residual_block, bias=True).eval()
    torch.nn.init.normal_(head.weight)
    pooled = torch.randn(5, 16)
    expected = head(pooled)
    found = head.to(dtype)(pooled, torch.ones(5, 16))
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=0.1)
