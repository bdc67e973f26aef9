"""Patch embeddings: each patch through the same network, on its own."""

import abc

import torch
from einops import rearrange
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.conv_layers import GroupNormReLU, Pixels, StdConv2d
from isopix.model.init import Glorot, InitScheme, InitTable
from isopix.model.profiling import count_flops
from isopix.model.stems.base import Components, Stem, StemSpec

CHANNELS = 3


class PatchStemSpec(StemSpec):
    """Base of stems that embed the pixels of a patch as one vector."""

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> "PatchEmbed":
        """Return the stem."""

    def num_components(self, codec: Codec) -> int:
        return 1

    def flops_per_token(self, codec: Codec, width: int) -> int:
        patch = (1, CHANNELS, codec.patch_size, codec.patch_size)
        return count_flops(lambda: self.build(codec, width), patch, torch.uint8)

    def init(self, scheme: InitScheme) -> InitTable:
        return {"project": Glorot(), "features.*": Glorot()}


@register("patch_embed")
class PatchEmbedSpec(PatchStemSpec):
    """All pixels of a patch through one matrix (ViT, equation 1)."""

    def label(self) -> str:
        return "linear patch embedding"

    def build(self, codec: Codec, width: int) -> "PatchEmbed":
        return PatchEmbed(nn.Flatten(), CHANNELS * codec.patch_size**2, codec, width)


@register("conv_patch_embed")
class ConvPatchEmbedSpec(PatchStemSpec):
    """3 x 3 convolutions of stride 2, each with GroupNorm and ReLU, until a patch has `last` pixels a side;
    then one matrix. The first has `channels` channels, each next one twice as many.
    """

    channels: int = 32
    last: int = 4

    def __post_init__(self) -> None:
        if self.channels < 1 or self.last < 1:
            raise ValueError(f"channels {self.channels} and last {self.last} must be at least 1")

    def label(self) -> str:
        return f"convolutional patch embedding, {self.channels} channels"

    def build(self, codec: Codec, width: int) -> "PatchEmbed":
        layers: list[nn.Module] = []
        side, inputs = codec.patch_size, CHANNELS
        while side > self.last or not layers:
            outputs = self.channels << len(layers) // 2
            layers += [StdConv2d(inputs, outputs, 3, stride=2), GroupNormReLU(outputs)]
            side, inputs = -(-side // 2), outputs
        return PatchEmbed(nn.Sequential(*layers, nn.Flatten()), inputs * side * side, codec, width)


class PatchEmbed(Stem):
    """One component: W f(patch) + b, with pixels in [-1, 1] and f of each patch alone."""

    def __init__(self, features: nn.Module, size: int, codec: Codec, width: int):
        super().__init__()
        self.patch_size = codec.patch_size
        self.features = features
        self.project = nn.Linear(size, width)

    def forward(self, inputs: Images) -> Components:
        patches = rearrange(inputs, "b c (h p) (w q) -> (b h w) c p q", p=self.patch_size, q=self.patch_size)
        pixels: Pixels = patches.to(self.project.weight.dtype) / 127.5 - 1
        return [rearrange(self.project(self.features(pixels)), "(b n) d -> b n d", b=len(inputs))]
