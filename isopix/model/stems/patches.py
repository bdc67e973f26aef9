"""Patch embeddings: each patch through the same network, on its own."""

import torch
from einops import rearrange
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.choices import Size
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.blocks.convolution import (
    EXPANSION,
    Bottleneck,
    GroupNormReLU,
    Pixels,
    StdConv2d,
    count_flops,
)
from isopix.model.init import Glorot, InitScheme, InitTable
from isopix.model.stems.pixels import Components, Stem, StemSpec

CHANNELS = 3


class PatchStemSpec(StemSpec):
    """Base of stems that embed the pixels of a patch as one vector."""

    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Subtracted from pixels in [0, 1], per channel."""
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Divides what remains; the default gives [-1, 1]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.std) <= 0:
            raise ValueError(f"std {list(self.std)} must be above 0")

    def num_components(self, codec: Codec) -> int:
        return 1

    def flops_per_token(self, codec: Codec, width: int) -> int:
        patch = (1, CHANNELS, codec.patch_size, codec.patch_size)
        return count_flops(lambda: self.build(codec, width), patch, torch.uint8)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"project": Glorot(), "features.*": Glorot()}


@register("patch_embed", "linear patch embedding")
class PatchEmbedSpec(PatchStemSpec):
    """All pixels of a patch through one matrix (ViT, equation 1)."""

    def build(self, codec: Codec, width: int) -> "PatchEmbed":
        return PatchEmbed(self, nn.Flatten(), CHANNELS * codec.patch_size**2, codec, width)


@register("conv_patch_embed")
class ConvPatchEmbedSpec(PatchStemSpec):
    """3 x 3 convolutions of stride 2, GroupNorm, ReLU, twice the channels each time; then one matrix."""

    channels: Size = 32
    """Channels of the first convolution."""
    last: Size = 4
    """Side in pixels at which convolutions end."""

    def label(self) -> str:
        return f"convolutional patch embedding, {self.channels} channels"

    def build(self, codec: Codec, width: int) -> "PatchEmbed":
        layers: list[nn.Module] = []
        side, inputs = codec.patch_size, CHANNELS
        while side > self.last or not layers:
            outputs = self.channels << len(layers) // 2
            layers += [StdConv2d(inputs, outputs, 3, stride=2), GroupNormReLU(outputs)]
            side, inputs = -(-side // 2), outputs
        features = nn.Sequential(*layers, nn.Flatten())
        return PatchEmbed(self, features, inputs * side * side, codec, width)


class PatchEmbed(Stem):
    """One component: W f(patch) + b, with normalized pixels and f of each patch alone."""

    def __init__(self, spec: PatchStemSpec, features: nn.Module, size: int, codec: Codec, width: int):
        super().__init__()
        self.patch_size = codec.patch_size
        self.normalize = PixelNorm(spec.mean, spec.std)
        self.features = features
        self.project = nn.Linear(size, width)

    def forward(self, inputs: Images) -> Components:
        patches = rearrange(inputs, "b c (h p) (w q) -> (b h w) c p q", p=self.patch_size, q=self.patch_size)
        pixels: Pixels = self.normalize(patches.to(self.project.weight.dtype))
        return [rearrange(self.project(self.features(pixels)), "(b n) d -> b n d", b=len(inputs))]


class PixelNorm(nn.Module):
    """(x / 255 - mean) / std of each channel, computed as x / (255 std) - mean / std."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]):
        super().__init__()
        scale, shift = ([255 * each for each in std], [m / s for m, s in zip(mean, std, strict=True)])
        self.register_buffer("scale", torch.tensor(scale)[:, None, None], persistent=False)
        self.register_buffer("shift", torch.tensor(shift)[:, None, None], persistent=False)

    def forward(self, pixels: Pixels) -> Pixels:
        return pixels / self.scale - self.shift


@register("resnet")
class ResNetPatchEmbedSpec(PatchStemSpec):
    """A residual network of each patch: a 3 x 3 convolution, stages of bottleneck blocks, the mean over the
    patch, and one matrix.

    With stages of 3, 4 and 6 blocks it is PatchFormer's ResNet-41 (section 2.1); the paper does not specify
    the first layer, which here has stride 1 and no pooling. Each stage but the first halves the side, and
    stage i has 4 x `channels` x 2^i channels. As in ViT's hybrids (section 3.1; BiT), norms are over groups
    of channels of one patch, and convolutions have standardized weights.
    """

    stages: tuple[int, ...] = (3, 4, 6)
    """Bottleneck blocks of each stage."""
    channels: Size = 64
    """Channels of the first convolution."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.stages, default=0) < 1:
            raise ValueError(f"stages is {list(self.stages)}; allowed: at least one, of 1 block or more")

    def label(self) -> str:
        return f"ResNet patch embedding, stages {'-'.join(map(str, self.stages))}, {self.channels} channels"

    def build(self, codec: Codec, width: int) -> PatchEmbed:
        layers: list[nn.Module] = [StdConv2d(CHANNELS, self.channels, 3)]
        channels = self.channels
        for stage, blocks in enumerate(self.stages):
            inner = self.channels << stage
            for block in range(blocks):
                layers.append(Bottleneck(channels, inner, 2 if stage and not block else 1))
                channels = EXPANSION * inner
        features = nn.Sequential(*layers, GroupNormReLU(channels), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return PatchEmbed(self, features, channels, codec, width)

    def init(self, scheme: InitScheme) -> InitTable:
        return {**super().init(scheme), **Bottleneck.INIT}
