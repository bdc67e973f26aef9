"""Codec: a two-way map between images and integer codes; nothing in it is learned by gradient descent."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from jaxtyping import Int
from torch import Tensor, nn

from isopix.core.registry import Part
from isopix.core.types import Codes, Grid, Images, ImageSequence


class Codec(nn.Module, abc.ABC):
    """Q codes per position, each in range(K): `encode(decode(codes)) == codes`, but for equal colors."""

    grid: Grid  # of the images that the model reads
    num_codes: int  # Q
    vocab_size: int  # K
    ordinal: bool = False  # whether codes are ordered levels, from dark to light
    patch_size: int  # side of a position in pixels: 1 for pixels
    points_per_side: int = 1  # the codes of a position are a square of so many points, each with its channels

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of the images that the model reads, in pixels."""
        return self.grid.rows * self.patch_size, self.grid.cols * self.patch_size

    @abc.abstractmethod
    def encode(self, images: Images) -> Codes:
        """Return the codes of images of any size that is a multiple of `patch_size`, in raster order."""

    @abc.abstractmethod
    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Return the images that the codes stand for; `grid` is the codec's own unless another is given."""

    def build_table(self) -> None:
        """Build any lookup table that `encode` would build later; call it before `torch.compile`."""

    def values_per_code(self) -> Int[Tensor, " K"] | None:
        """Return how many values of its pixels each code stands for, None if that is not determined."""
        return None

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of everything that decides the codes; codecs with the same hash are equal."""


S = TypeVar("S", bound="CodecSpec")


class CodecSpec(Part, noun="codec"):
    """Settings of a codec; a model card has the tags of the Hub that the block has too."""

    hub_tags: ClassVar[tuple[str, ...]] = ()

    @property
    @abc.abstractmethod
    def patch_size(self) -> int:
        """Side of a position in pixels."""

    def unit(self) -> str:
        """Return what one code stands for, as in "nats per pixel"."""
        return "patch" if self.patch_size > 1 else "pixel"

    @property
    def fit_message(self) -> str:
        """What `fit` spends time on; empty for nothing."""
        return ""

    @abc.abstractmethod
    def fit(self, images: ImageSequence, grid: Grid, seed: int) -> Codec:
        """Return the codec, fitted to training images if need be. Raises ValueError if that is impossible."""

    def fitted(self: S, codec: Codec) -> S:
        """Return these settings as they are true of the codec that was fitted to images."""
        return self

    @abc.abstractmethod
    def from_state(self, tensors: Mapping[str, Tensor], grid: Grid) -> Codec:
        """Return the codec of a checkpoint. Raises KeyError with the tensor's name if it has none."""

    @abc.abstractmethod
    def placeholder(self, grid: Grid) -> Codec:
        """Return a codec of this size, to count parameters with."""

    def with_colors_of_file(self: S) -> S:
        """Return these settings with as many colors as their palette file has."""
        return self

    def with_absolute_paths(self: S) -> S:
        """Return these settings with absolute paths of their files."""
        return self

    def provenance(self) -> dict[str, Any]:
        """Return where the codec comes from, to be recorded; nothing for one of the run's own."""
        return {}


class StatelessCodecSpec(CodecSpec):
    """Settings of a codec that does not depend on the images."""

    @abc.abstractmethod
    def build(self, grid: Grid) -> Codec:
        """Return the codec for images of this grid."""

    def fit(self, images: ImageSequence, grid: Grid, seed: int) -> Codec:
        return self.build(grid)

    def from_state(self, tensors: Mapping[str, Tensor], grid: Grid) -> Codec:
        return self.build(grid)

    def placeholder(self, grid: Grid) -> Codec:
        return self.build(grid)
