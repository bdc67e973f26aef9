"""ResNet stem: a residual network of each patch."""

from torch import nn

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.model.conv_layers import EXPANSION, Bottleneck, GlobalAvgPool, GroupNormReLU, StdConv2d
from isopix.model.init import InitScheme, InitTable
from isopix.model.stems.patch_embed import CHANNELS, PatchEmbed, PatchStemSpec


@register("resnet")
class ResNetPatchEmbedSpec(PatchStemSpec):
    """A residual network of each patch: a 3 x 3 convolution, stages of bottleneck blocks, the mean over the
    patch, and one matrix.

    With stages of 3, 4 and 6 blocks it is PatchFormer's ResNet-41 (section 2.1): 3 x 13 convolutions, the
    first one and the matrix; the paper calls it the first three stacks of ResNet-50. Each stage but the first
    halves the side, and stage i has 4 x `channels` x 2^i channels: 256, 512, 1024. The paper does not specify
    the first layer; ours has stride 1 and no pooling, since patches are small. ViT's hybrid (section 3.1) is
    the same with other stages. As in ViT's hybrids (BiT), norms are over groups of channels of one patch, and
    convolutions have standardized weights, so that a patch depends on no other patch or image.
    """

    stages: tuple[int, ...] = (3, 4, 6)
    channels: int = 64

    def __post_init__(self) -> None:
        if self.channels < 1 or not self.stages or min(self.stages) < 1:
            stages = list(self.stages)
            raise ValueError(f"stages {stages} and channels {self.channels} must be at least 1 each")

    def label(self) -> str:
        return f"ResNet patch embedding, stages {'-'.join(map(str, self.stages))}, {self.channels} channels"

    def build(self, codec: Codec, width: int) -> PatchEmbed:
        layers: list[nn.Module] = [StdConv2d(CHANNELS, self.channels, 3)]
        channels = self.channels
        for stage, blocks in enumerate(self.stages):
            inner = self.channels << stage
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                layers.append(Bottleneck(channels, inner, stride))
                channels = EXPANSION * inner
        features = nn.Sequential(*layers, GroupNormReLU(channels), GlobalAvgPool())
        return PatchEmbed(features, channels, codec, width)

    def init(self, scheme: InitScheme) -> InitTable:
        return {**super().init(scheme), **Bottleneck.INIT}
