"""Stateless codecs: nothing is fitted or stored, so that their settings define them."""

import abc
from collections.abc import Mapping

from torch import Tensor

from isopix.codecs.base import Codec, CodecSpec
from isopix.core.types import Grid, Images


class StatelessCodecSpec(CodecSpec):
    """Settings of a codec that does not depend on the images."""

    @abc.abstractmethod
    def build(self, grid: Grid) -> Codec:
        """Return the codec for images of this grid."""

    def fit(self, images: Images, grid: Grid, seed: int) -> Codec:
        return self.build(grid)

    def from_state(self, tensors: Mapping[str, Tensor], grid: Grid) -> Codec:
        return self.build(grid)

    def placeholder(self, grid: Grid) -> Codec:
        return self.build(grid)
