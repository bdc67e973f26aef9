"""Codec: a two-way map between images and integer codes; nothing in it is learned by gradient descent."""

import abc

from torch import nn

from isopix.core.types import Codes, Grid, Images


class Codec(nn.Module, abc.ABC):
    """Q codes per position, each in range(K), such that `encode(decode(codes)) == codes`."""

    grid: Grid  # of the images that the model reads
    num_codes: int  # Q
    vocab_size: int  # K
    ordinal: bool = False  # whether codes are levels from dark to light, so that near ones look alike
    patch_size: int  # side of a position in pixels: 1 for pixels

    @abc.abstractmethod
    def encode(self, images: Images) -> Codes:
        """Return the codes of images of any size that is a multiple of `patch_size`, in raster order."""

    @abc.abstractmethod
    def decode(self, codes: Codes, grid: Grid | None = None) -> Images:
        """Return the images that the codes stand for; `grid` is the codec's own unless another is given."""

    def build_table(self) -> None:
        """Build any lookup table that `encode` would build later; call it before `torch.compile`."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of everything that decides the codes; codecs with the same hash are equal."""
