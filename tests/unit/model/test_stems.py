"""Stems and heads: what they compute, their losses and most likely codes, and their sizes in the papers."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.codecs.palette import Palette
from isopix.codecs.patches import Bytes, FullPatchSpec, GrayThumbnailSpec, MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.model.blocks.convolution import GroupNormReLU, StdConv2d
from isopix.model.heads import (
    ClassHead,
    HeadSpec,
    Likelihood,
    LinearHeadSpec,
    RegressionHeadSpec,
    UpsamplingHeadSpec,
)
from isopix.model.masking import sum_components
from isopix.model.stems.patches import ConvPatchEmbedSpec, PatchEmbedSpec, ResNetPatchEmbedSpec
from isopix.model.stems.pixels import (
    ColorEmbeddingSpec,
    FourierPixelEmbeddingSpec,
    LinearPixelEmbeddingSpec,
    PixelEmbedding,
)

GRID, WIDTH, PATCH_SIZE = Grid(2, 3), 6, 8
PATCHES, BYTES = MeanColorSpec(patch_size=PATCH_SIZE).build(GRID), Bytes(Grid(3, 4))
STEMS = [PatchEmbedSpec(), ConvPatchEmbedSpec(channels=4), ResNetPatchEmbedSpec(stages=(1, 2), channels=4)]


def images(codec: Codec = PATCHES) -> Images:
    shape = (2, 3, *codec.image_size)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


def test_the_papers_resnet_has_forty_one_layers_and_a_last_width_of_1024() -> None:
    """13 bottlenecks of three, the first and the last; shortcuts are not counted, as in ResNet-50. Each stage
    but the first halves the side.
    """
    codec = MeanColorSpec(patch_size=16).build(GRID)
    with torch.device("meta"):
        built = ResNetPatchEmbedSpec().build(codec, 1024)
    layers = [name for name, each in built.named_modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    assert len([name for name in layers if "conv0" not in name]) == 41
    assert len([name for name in layers if "conv0" in name]) == 3  # where each stage begins
    assert (built.project.in_features, built.project.out_features) == (1024, 1024)
    pixels, shapes = torch.randn(2, 3, 16, 16), []
    for layer in ResNetPatchEmbedSpec(channels=4).build(codec, WIDTH).features[:-2]:  # without the mean
        pixels = layer(pixels)
        shapes.append((pixels.shape[1], pixels.shape[2]))
    assert shapes == [(4, 16), *[(16, 16)] * 3, *[(32, 8)] * 4, *[(64, 4)] * 6, (64, 4)]


def test_convolutions_count_flops_at_every_pixel_and_keep_variances() -> None:
    """8 x 8 to 4 x 4 pixels of 4 channels, then one matrix."""
    assert STEMS[1].flops_per_token(PATCHES, WIDTH) == 2 * (16 * 4 * 27 + 64 * WIDTH)
    conv = StdConv2d(64, 64, 3)
    pixels = torch.randn(16, 64, 12, 12, generator=generator(0, "pixels"))
    conv.weight.data.mul_(7).add_(3)
    assert float(conv(pixels).detach()[:, :, 1:-1, 1:-1].var()) == pytest.approx(1, abs=0.1)
    assert [GroupNormReLU(channels).norm.num_groups for channels in (2, 12, 64, 1024)] == [1, 1, 16, 32]


def build(stem: FourierPixelEmbeddingSpec | LinearPixelEmbeddingSpec) -> PixelEmbedding:
    """In float64, every parameter random."""
    built = stem.build(BYTES, WIDTH).double()
    with torch.no_grad():
        for tensor in (*built.parameters(), *built.buffers()):
            tensor.copy_(torch.randn(tensor.shape, generator=generator(0, "stem"), dtype=torch.float64))
    return built


def test_linear_is_one_linear_layer_of_scaled_pixels() -> None:
    stem, x = build(LinearPixelEmbeddingSpec()), images(BYTES)
    scaled = (x.double() - 127.5) / 127.5
    expected = scaled.flatten(2).mT @ stem.project.weight.T + stem.bias.sum(0)
    torch.testing.assert_close(sum_components(stem(x)), expected)


def test_fourier_is_one_linear_layer_of_sines_and_cosines() -> None:
    """Number by number: channel after channel, frequency after frequency, a sine and a cosine."""
    stem, x = build(FourierPixelEmbeddingSpec(sigma=0.7, frequencies=3)), images(BYTES)
    for b, row, col in ((0, 0, 0), (1, 2, 3), (1, 1, 2)):
        features = []
        for channel in range(3):
            p = (float(x[b, channel, row, col]) - 127.5) / 127.5
            for normal in stem.features.normals[channel].tolist():
                turn = 2 * math.pi * 0.7 * normal * p
                features += [math.sin(turn), math.cos(turn)]
        expected = stem.project.weight @ torch.tensor(features, dtype=torch.float64) + stem.bias.sum(0)
        torch.testing.assert_close(sum_components(stem(x))[b, row * 4 + col], expected)


def test_colors_start_with_products_that_fall_with_their_distance() -> None:
    """By a Gaussian, the mean over the frequencies (Rahimi & Recht 2007, figure 1)."""
    colors = torch.rand(9, 3, generator=generator(0, "colors")) * 255
    codec = Palette(colors, GRID)
    torch.manual_seed(0)
    table = ColorEmbeddingSpec(sigma=0.4, std=0.5).build(codec, 40_000).value_table()[0]
    distances = torch.cdist(colors, colors) / 127.5
    expected = 0.25 * (-((0.4 * math.pi * distances) ** 2) / 2).exp()
    torch.testing.assert_close(table @ table.T / 40_000, expected, atol=0.01, rtol=0)
    with pytest.raises(ValueError, match="color_embedding needs the codec palette"):
        ColorEmbeddingSpec().build(BYTES, 8)


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
