"""Results of `sample`, `complete` and `reconstruct`; `path` is the `picture` as written, None for a model
without a run folder; `record` are the numbers as saved there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from isopix.api.notebook import display
from isopix.core.measurement import Measurement
from isopix.core.text import short_repr_of
from isopix.core.types import Images
from isopix.generate.complete import CompletedImages, Completions, LogLikelihood
from isopix.generate.mask import PixelMask
from isopix.generate.reconstruct import Reconstruction
from isopix.generate.sample import SampledImages
from isopix.plots.images import png_bytes

Distances = Float[Tensor, "_"]


@dataclass(frozen=True, repr=False)
class PictureOutput:
    """A picture, shown below the cell of a notebook whose last value it is."""

    record: Mapping[str, Any] = field(repr=False)
    path: Path | None
    picture: Image.Image = field(repr=False)

    def __repr__(self) -> str:
        return short_repr_of(self, [each.name for each in fields(self) if each.repr])

    def show(self) -> None:
        """Show the picture: in a notebook below the cell, elsewhere in the system's viewer."""
        display(self.picture)

    def _repr_png_(self) -> bytes:
        return png_bytes(self.picture)


@dataclass(frozen=True, kw_only=True, repr=False)
class NearestTrainingImages(PictureOutput):
    """The nearest of `num_training` images to each sample, uint8 [B 3 H W], and its distance: the root mean
    square difference of levels (0..255). `held_out` are such distances of held-out images, as the network
    reads them: samples of a model that repeats its training images are nearer.
    """

    images: Images
    distances: Distances
    num_training: int
    held_out: Distances


@dataclass(frozen=True, kw_only=True, repr=False)
class SampleOutput(PictureOutput):
    """Sampled images, uint8 [B 3 H W], and on request the training images that are nearest to them."""

    images: SampledImages
    nearest: NearestTrainingImages | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class CompletionOutput(PictureOutput):
    """Completions of `inputs` [B 3 H W]; `images`, `log_likelihood` and `mask` are theirs."""

    completions: Completions
    inputs: Images

    @property
    def images(self) -> CompletedImages:
        return self.completions.images

    @property
    def log_likelihood(self) -> LogLikelihood:
        return self.completions.log_likelihood

    @property
    def mask(self) -> PixelMask:
        return self.completions.mask


@dataclass(frozen=True, kw_only=True, repr=False)
class ReconstructionOutput(PictureOutput):
    """Images with masked positions, and the model's predictions of them."""

    reconstruction: Reconstruction
    measurement: Measurement

    @property
    def accuracy(self) -> float:
        """Fraction of masked codes predicted exactly."""
        return self.reconstruction.accuracy
