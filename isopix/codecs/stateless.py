"""Fixed codecs: nothing in them is fitted or kept, so that their settings alone say which they are."""

import abc
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.types import Grid, Images

T = TypeVar("T")


class Fixed(abc.ABC):
    """What a run asks of a codec's settings, where the codec is the same whatever the images."""

    @abc.abstractmethod
    def build(self, grid: Grid) -> Codec:
        """The codec of images with so many positions."""

    @property
    def task(self) -> str:
        """Nothing takes time."""
        return ""

    def fit(self, images: Images, grid: Grid, seed: int) -> Codec:
        """The codec, whatever the images."""
        return self.build(grid)

    def restore(self, tensors: Mapping[str, Tensor], grid: Grid) -> Codec:
        """The codec, whatever the checkpoint."""
        return self.build(grid)

    def example(self, grid: Grid) -> Codec:
        """The codec."""
        return self.build(grid)

    def anchored(self: T) -> T:
        """The same: no path is in it."""
        return self

    def origin(self) -> dict[str, Any]:
        """Nothing."""
        return {}
