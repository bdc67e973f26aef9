"""Patch stems: their sizes in the papers, and the independence of patches."""

import pytest
import torch
from torch import nn

from isopix.codecs.patches import MeanColorSpec
from isopix.core.random import generator
from isopix.core.types import Grid, Images
from isopix.model.blocks.convolution import GroupNormReLU, StdConv2d
from isopix.model.stems.base import StemSpec
from isopix.model.stems.patches import ConvPatchEmbedSpec, PatchEmbedSpec, ResNetPatchEmbedSpec

WIDTH, PATCH_SIZE = 6, 8
GRID = Grid(2, 3)
CODEC = MeanColorSpec(patch_size=PATCH_SIZE).build(GRID)
STEMS = [PatchEmbedSpec(), ConvPatchEmbedSpec(channels=4), ResNetPatchEmbedSpec(stages=(1, 2), channels=4)]
every = pytest.mark.parametrize("stem", STEMS, ids=lambda stem: stem.kind)


def images(count: int = 2) -> Images:
    shape = (count, 3, GRID.rows * PATCH_SIZE, GRID.cols * PATCH_SIZE)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator(0, "images"))


@every
def test_a_position_depends_on_its_own_pixels_alone(stem: StemSpec) -> None:
    """Exactly, in training too: no norm mixes patches or images."""
    built = stem.build(CODEC, WIDTH).train()
    x = images()
    [before] = built(x)
    x[0, :, :PATCH_SIZE, PATCH_SIZE : 2 * PATCH_SIZE] ^= 0xFF
    [after] = built(x)
    moved = (before != after).any(-1)
    assert moved.nonzero().tolist() == [[0, 1]]


def test_each_stage_of_a_resnet_but_the_first_halves_the_side() -> None:
    """PatchFormer's 16 pixels become 4, and 64 channels 1024."""
    built = ResNetPatchEmbedSpec(channels=4).build(MeanColorSpec(patch_size=16).build(GRID), WIDTH)
    pixels = torch.randn(2, 3, 16, 16, generator=generator(0, "pixels"))
    shapes = []
    for layer in built.features[:-2]:  # without the mean over the patch
        pixels = layer(pixels)
        shapes.append((pixels.shape[1], pixels.shape[2]))
    assert shapes == [(4, 16), *[(16, 16)] * 3, *[(32, 8)] * 4, *[(64, 4)] * 6, (64, 4)]


def test_linear_patches_are_one_matrix_over_all_pixels() -> None:
    built, x = PatchEmbedSpec().build(CODEC, WIDTH), images()
    pixels = x[1, :, PATCH_SIZE:, PATCH_SIZE : 2 * PATCH_SIZE].float().flatten() / 127.5 - 1
    expected = built.project.weight @ pixels + built.project.bias
    torch.testing.assert_close(built(x)[0][1, 4], expected)


def test_the_papers_resnet_has_forty_one_layers_and_a_last_width_of_1024() -> None:
    """13 bottlenecks of three, the first and the last; shortcuts are not counted, as in ResNet-50."""
    with torch.device("meta"):
        built = ResNetPatchEmbedSpec().build(MeanColorSpec(patch_size=16).build(GRID), 1024)
    layers = [name for name, each in built.named_modules() if isinstance(each, nn.Conv2d | nn.Linear)]
    assert len([name for name in layers if "conv0" not in name]) == 41
    assert (built.project.in_features, built.project.out_features) == (1024, 1024)
    shortcuts = [name for name in layers if "conv0" in name]
    assert len(shortcuts) == 3  # one where each stage begins


def test_flops_of_convolutions_are_counted_at_every_pixel() -> None:
    """8 x 8 to 4 x 4 pixels of 4 channels, then one matrix."""
    stem = ConvPatchEmbedSpec(channels=4)
    assert stem.flops_per_token(CODEC, WIDTH) == 2 * (16 * 4 * 27 + 64 * WIDTH)


def test_weights_are_standardized_and_keep_variances() -> None:
    conv = StdConv2d(64, 64, 3)
    pixels = torch.randn(16, 64, 12, 12, generator=generator(0, "pixels"))
    conv.weight.data.mul_(7).add_(3)
    assert float(conv(pixels).detach()[:, :, 1:-1, 1:-1].var()) == pytest.approx(1, abs=0.1)


def test_a_norm_has_at_least_four_channels_per_group() -> None:
    assert [GroupNormReLU(channels).norm.num_groups for channels in (2, 12, 64, 1024)] == [1, 1, 16, 32]


def test_pixels_are_normalized_channel_by_channel() -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    stem = PatchEmbedSpec(mean=mean, std=std).build(CODEC, WIDTH)
    plain = PatchEmbedSpec().build(CODEC, WIDTH)
    found = stem.normalize(images().float()).double()
    for channel in range(3):
        levels = images()[:, channel].double() / 255
        assert torch.allclose(found[:, channel], (levels - mean[channel]) / std[channel], atol=1e-5)
    assert torch.equal(plain.normalize(images().float()), images().float() / 127.5 - 1)  # bit for bit
