"""Patch stems: each patch through the same network, on its own, so that no patch sees another."""

import abc

import torch
from einops import rearrange
from torch import nn

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.core.types import Images
from isopix.model.conv_layers import Pixels, Rectified, Standardised
from isopix.model.profiling import counted
from isopix.model.stems.base import Parts, StemSpec

CHANNELS = 3


class EachPatch(StemSpec):
    """A spec of a stem that makes one vector of each patch's pixels."""

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> "PatchStem":
        """The stem."""

    def parts(self, codec: Codec) -> int:
        """How many vectors make up a position."""
        return 1

    def flops(self, codec: Codec, width: int) -> int:
        """Multiply-adds counted as two, of one position."""
        cell = (1, CHANNELS, codec.patch_size, codec.patch_size)
        return counted(lambda: self.build(codec, width), cell, torch.uint8)


@register("patches")
class Patches(EachPatch):
    """All pixels of a patch through one matrix (ViT, equation 1)."""

    def build(self, codec: Codec, width: int) -> "PatchStem":
        return PatchStem(nn.Flatten(), CHANNELS * codec.patch_size**2, codec, width)

    def label(self) -> str:
        return "linear patch embedding"


@register("convolved_patches")
class ConvolvedPatches(EachPatch):
    """3 x 3 convolutions of stride 2, each before a norm and a ReLU, until a patch has `last` pixels a side;
    then one matrix. The first has `channels` channels, and each next one twice as many.
    """

    channels: int = 32
    last: int = 4

    def __post_init__(self) -> None:
        if self.channels < 1 or self.last < 1:
            raise ValueError(f"channels {self.channels} and last {self.last} must be at least 1")

    def build(self, codec: Codec, width: int) -> "PatchStem":
        layers: list[nn.Module] = []
        side, inputs = codec.patch_size, CHANNELS
        while side > self.last or not layers:
            outputs = self.channels << len(layers) // 2
            layers += [Standardised(inputs, outputs, 3, stride=2), Rectified(outputs)]
            side, inputs = -(-side // 2), outputs
        return PatchStem(nn.Sequential(*layers, nn.Flatten()), inputs * side * side, codec, width)

    def label(self) -> str:
        return f"convolutional patch embedding, {self.channels} channels"


class PatchStem(nn.Module):
    """One part: W f(patch) + b, with f of each patch alone, in [-1, 1]."""

    def __init__(self, features: nn.Module, size: int, codec: Codec, width: int):
        super().__init__()
        self.cell = codec.patch_size
        self.features = features
        self.project = nn.Linear(size, width)

    def seen(self, images: Images) -> Images:
        """All of them."""
        return images

    def forward(self, images: Images) -> Parts:
        cells = rearrange(images, "b c (h p) (w q) -> (b h w) c p q", p=self.cell, q=self.cell)
        pixels: Pixels = cells.to(self.project.weight.dtype) / 127.5 - 1
        return [rearrange(self.project(self.features(pixels)), "(b n) d -> b n d", b=len(images))]
