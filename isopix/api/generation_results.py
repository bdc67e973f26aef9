"""Results of `sample`, `complete` and `reconstruct`; `path` is the picture that was written, None for a model
without a run folder; `record` are the numbers as saved there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from isopix.core.types import Images
from isopix.data.measurement import Measurement
from isopix.generate.complete import CompletedImages, Completions, LogLikelihood
from isopix.generate.completion_mask import PixelMask
from isopix.generate.reconstruct import Reconstruction
from isopix.generate.sample import SampledImages

Distances = Float[Tensor, "_"]


@dataclass(frozen=True)
class NearestTrainingImages:
    """The nearest of `num_training` images to each sample, uint8 [B 3 H W], and its distance: the root mean
    square difference of levels (0..255). `held_out` are such distances of held-out images, as the network
    reads them: samples of a model that repeats its training images are nearer.
    """

    images: Images
    distances: Distances
    num_training: int
    held_out: Distances
    record: Mapping[str, Any]
    path: Path | None


@dataclass(frozen=True)
class SampleOutput:
    """Sampled images, uint8 [B 3 H W], and on request the training images that are nearest to them."""

    images: SampledImages
    record: Mapping[str, Any]
    path: Path | None
    nearest: NearestTrainingImages | None = None


@dataclass(frozen=True)
class CompletionOutput:
    """Completions of `inputs` [B 3 H W]; `images`, `log_likelihood` and `mask` are theirs."""

    completions: Completions
    inputs: Images
    record: Mapping[str, Any]
    path: Path | None

    @property
    def images(self) -> CompletedImages:
        return self.completions.images

    @property
    def log_likelihood(self) -> LogLikelihood:
        return self.completions.log_likelihood

    @property
    def mask(self) -> PixelMask:
        return self.completions.mask


@dataclass(frozen=True)
class ReconstructionOutput:
    """Images with masked positions, and the model's predictions of them."""

    reconstruction: Reconstruction
    measurement: Measurement
    record: Mapping[str, Any]
    path: Path | None

    @property
    def accuracy(self) -> float:
        """Fraction of masked codes predicted exactly."""
        return self.reconstruction.accuracy
