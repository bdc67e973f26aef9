"""Fixed codecs: nothing in them is fitted or kept, so that their settings alone say which they are."""

import abc
from collections.abc import Mapping

from torch import Tensor

from isopix.codecs.base import Codec, CodecSpec
from isopix.core.types import Grid, Images


class Fixed(CodecSpec):
    """What a run asks of a codec's settings, where the codec is the same whatever the images."""

    @abc.abstractmethod
    def build(self, grid: Grid) -> Codec:
        """The codec of images with so many positions."""

    def fit(self, images: Images, grid: Grid, seed: int) -> Codec:
        """The codec, whatever the images."""
        return self.build(grid)

    def restore(self, tensors: Mapping[str, Tensor], grid: Grid) -> Codec:
        """The codec, whatever the checkpoint."""
        return self.build(grid)

    def placeholder(self, grid: Grid) -> Codec:
        """The codec."""
        return self.build(grid)
