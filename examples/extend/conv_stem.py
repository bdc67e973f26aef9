"""A convolutional stem: two convolutions inside each patch, so that a position sees its own pixels only.

isopix pretrain igpt.digits_bert --plugin examples/extend/conv_stem.py stem=two_convs --out runs/two-convs
"""

from einops import rearrange
from torch import nn

from isopix import parts

CHANNELS = 3


@parts.register("two_convs")
class TwoConvsSpec(parts.StemSpec):
    """A 1 x 1 convolution to `channels`, GELU, and a convolution whose kernel and stride are the patch."""

    channels: int = 32

    def __post_init__(self) -> None:
        if self.channels < 1:
            raise ValueError(f"channels {self.channels} must be at least 1")

    def label(self) -> str:
        return f"two convolutions per patch, {self.channels} channels"

    def build(self, codec: parts.Codec, width: int) -> "TwoConvs":
        return TwoConvs(self.channels, codec.patch_size, width)

    def num_components(self, codec: parts.Codec) -> int:
        return 1

    def flops_per_token(self, codec: parts.Codec, width: int) -> int:
        return 2 * codec.patch_size**2 * self.channels * (CHANNELS + width)

    def init(self, scheme: parts.InitScheme) -> parts.InitTable:
        return {"conv1": parts.Glorot(), "conv2": parts.Glorot()}


class TwoConvs(parts.Stem):
    def __init__(self, channels: int, patch_size: int, width: int):
        super().__init__()
        self.conv1 = nn.Conv2d(CHANNELS, channels, 1)
        self.conv2 = nn.Conv2d(channels, width, patch_size, stride=patch_size)

    def forward(self, inputs: parts.Images) -> parts.Components:
        pixels = inputs.to(self.conv1.weight.dtype) / 127.5 - 1
        tokens = self.conv2(nn.functional.gelu(self.conv1(pixels)))
        return [rearrange(tokens, "b d h w -> b (h w) d")]
