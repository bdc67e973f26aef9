"""ResNet stem: a residual network of each patch alone."""

from torch import nn

from isopix.codecs.base import Codec
from isopix.core.registry import register
from isopix.model.conv_layers import Mean, Pixels, Rectified, Standardised
from isopix.model.stems.patch_embed import CHANNELS, EachPatch, PatchStem

WIDER = 4  # times as many channels leave a bottleneck as are inside


@register("resnet")
class ResNet(EachPatch):
    """A residual network of each patch: a 3 x 3 convolution, stages of bottleneck blocks, the mean over the
    patch, and one matrix.

    With stages of 3, 4 and 6 blocks it is PatchFormer's ResNet-41 (section 2.1): 3 x 13 convolutions, the
    first one and the matrix; the paper calls it the first three stacks of ResNet-50. Each stage but the first
    halves the side, and stage i has 4 x `channels` x 2^i channels: 256, 512, 1024. The paper's first layer is
    not told; ours has stride 1 and no pooling, for patches are small. A ViT's hybrid is the same with other
    stages (section 3.1). Norms are over groups of channels of one patch, and convolutions have standardised
    weights, as in ViT's own hybrids (BiT): what a patch becomes depends on no other patch or image.
    """

    stages: tuple[int, ...] = (3, 4, 6)
    channels: int = 64

    def __post_init__(self) -> None:
        if self.channels < 1 or not self.stages or min(self.stages) < 1:
            stages = list(self.stages)
            raise ValueError(f"stages {stages} and channels {self.channels} must be at least 1, each")

    def build(self, codec: Codec, width: int) -> "PatchStem":
        layers: list[nn.Module] = [Standardised(CHANNELS, self.channels, 3)]
        inputs = self.channels
        for stage, blocks in enumerate(self.stages):
            inner = self.channels << stage
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                layers.append(Bottleneck(inputs, inner, stride))
                inputs = WIDER * inner
        return PatchStem(nn.Sequential(*layers, Rectified(inputs), Mean()), inputs, codec, width)

    def label(self) -> str:
        return f"ResNet patch embedding, stages {'-'.join(map(str, self.stages))}, {self.channels} channels"


class Bottleneck(nn.Module):
    """x + conv3(f(conv2(f(conv1(f(x)))))), f a norm and a ReLU; conv2 is 3 x 3, the others 1 x 1.

    Where the shape changes, f(x) through a 1 x 1 convolution of its own stands in for x (BiT's ResNet v2).
    Of a picture of one pixel a 3 x 3 convolution has only its middle to look through: `side` is 1 there.
    """

    def __init__(self, inputs: int, inner: int, stride: int = 1, *, side: int = 3):
        super().__init__()
        outputs = WIDER * inner
        self.first, self.second, self.third = Rectified(inputs), Rectified(inner), Rectified(inner)
        self.conv1 = Standardised(inputs, inner, 1)
        self.conv2 = Standardised(inner, inner, side, stride)
        self.conv3 = Standardised(inner, outputs, 1)
        self.conv0 = Standardised(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, pixels: Pixels) -> Pixels:
        entered = self.first(pixels)
        inner = self.second(self.conv1(entered))
        inner = self.third(self.conv2(inner))
        return (pixels if self.conv0 is None else self.conv0(entered)) + self.conv3(inner)
