"""Codec: the two-way map between images and integer codes; nothing in it is learnt by gradient."""

import abc
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from isopix.core.registry import Part
from isopix.core.types import Codes, Grid, Images


class Codec(nn.Module, abc.ABC):
    """Q codes at each position, each in range(K), such that `encode(decode(codes)) == codes`."""

    grid: Grid  # of the images that the model reads
    num_codes: int  # Q
    vocab_size: int  # K
    ordinal: bool = False  # whether codes are levels from dark to light, of which near ones look alike
    patch_size: int  # side in pixels of one position: 1 for pixels, the patch for patches

    @abc.abstractmethod
    def encode(self, images: Images) -> Codes:
        """The codes of images whose sides are multiples of `patch_size`, positions in raster order."""

    @abc.abstractmethod
    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """The images that these codes stand for; `grid` is the codec's own unless another is given."""

    def prepare(self) -> None:
        """Build now whatever `encode` would build once it is worth it; call it before compiling."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A hash of everything that decides which code a pixel gets; two codecs of equal hash are the same
        map.
        """


S = TypeVar("S", bound="CodecSpec")


class CodecSpec(Part, noun="codec"):
    """Settings of a codec."""

    @property
    @abc.abstractmethod
    def patch_size(self) -> int:
        """Side in pixels of one position."""

    @property
    def task(self) -> str:
        """What `fit` has to do that takes time, in words; empty if there is nothing."""
        return ""

    @abc.abstractmethod
    def fit(self, images: Images, grid: Grid, seed: int) -> Codec:
        """The codec of these training images. Raises ValueError if it cannot be made."""

    @abc.abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], grid: Grid) -> Codec:
        """The codec that a checkpoint holds. Raises LookupError that names the tensor if it has none."""

    @abc.abstractmethod
    def placeholder(self, grid: Grid) -> Codec:
        """Some codec of this size."""

    def anchored(self: S) -> S:
        """The same with the paths of its files made absolute."""
        return self

    def origin(self) -> dict[str, Any]:
        """Where the codec comes from, for the record; nothing for one of the run's own."""
        return {}
