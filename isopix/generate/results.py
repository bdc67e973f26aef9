"""Settings and results of sampling and completion, without PyTorch, so that help is instant."""

import io
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, Literal

from isopix.core.choices import Count, Precision, Range
from isopix.core.config import config
from isopix.core.text import Table, count_of
from isopix.storage.result import Result, Unsaved, unsaved

Order = Literal["inward", "confident", "random"]


@config
class SamplingConfig:
    """How codes are drawn from logits; by default from the model's own distribution, as in the papers."""

    temperature: Annotated[float, Range(above=0)] = 1.0
    """Divide logits by this; below 1 sharpens the distribution."""
    top_k: Count | None = None
    """Sample from the k most likely codes only; 1 is greedy."""
    top_p: Annotated[float, Range(above=0, high=1)] | None = None
    """Sample from the most likely codes whose probabilities sum to at least p (nucleus sampling)."""
    precision: Precision | None = None
    """Precision of cached keys and values, and of matrix products (on CPUs: only of large matrices, and only
    with bf16 instructions). Default: the model's precision.
    """
    compile: bool | None = None
    """Compile the sampling step, which takes 10 to 30 seconds the first time. Default: on GPUs."""


@config
class Passes:
    """How a masked model fills in hidden positions."""

    order: Order = "inward"
    """Positions that a masked model fills in first: next to visible ones, most confident, or random."""
    iterations: Count = 24
    """Number of passes of a masked model."""


DEFAULT_PASSES = Passes()
DEFAULT_SAMPLING = SamplingConfig()

BASELINE = "Nearest visible: each hidden pixel as the nearest visible one, without learning."
LIKELIHOODS = {
    "raster": "Log-likelihood in nats: the sum over the filled-in codes of ln p(code | codes before it), at "
    "temperature 1",
    "path": "Log-probability in nats of the path, given its order: the sum over the filled-in codes of "
    "ln p(code | known codes and those of earlier passes), at temperature 1",
}


class PictureResult(Result):
    """A grid of images, a PNG at `path`, and shown below the cell of a notebook whose last value it is."""

    step: int
    seed: int
    picture: Unsaved[Any] = unsaved()

    def _shown(self) -> list[bytes]:
        if self.picture is None:
            return super()._shown()
        content = io.BytesIO()
        self.picture.save(content, format="PNG")
        return [content.getvalue()]

    @property
    def _count(self) -> str:
        return self.measurement.count if self.measurement else ""

    def _when(self, sampling: SamplingConfig | None = None) -> str:
        names = {"temperature": "temperature", "top_k": "top-k", "top_p": "top-p"}
        given = [(name, getattr(sampling, key, None)) for key, name in names.items()]
        settings = [f"{name} {value:g}" for name, value in given if value is not None]
        return ", ".join([f"step {self.step:,}", f"seed {self.seed}", *settings])


@dataclass(frozen=True, kw_only=True)
class NearestTraining:
    """The root mean square distance (levels 0..255) of each sample to the nearest training image, and of
    `held_out` images: samples of a model that repeats its training images are nearer.
    """

    num_training: int
    distances: tuple[float, ...]
    held_out: tuple[float, ...]


class SampleResult(PictureResult):
    """Sampled images, uint8 [count 3 H W]; on request the training images that are nearest to them."""

    count: int
    sampling: SamplingConfig
    nearest: NearestTraining | None = None
    images: Unsaved[Any] = unsaved()
    nearest_images: Unsaved[Any] = unsaved()

    @property
    def title(self) -> str:
        return "Nearest training images" if self.nearest else "Samples"

    @property
    def caption(self) -> str:
        beside = ""
        if self.nearest:
            beside = (
                f", each beside the nearest of {self.nearest.num_training:,} training images; samples that "
                "are much nearer than held-out images repeat training images"
            )
        return f"{count_of(self.count, 'sample')}{beside}; {self._when(self.sampling)}."

    def tables(self) -> list[Table]:
        if self.nearest is None:
            return []
        distances = {"samples": self.nearest.distances, "held-out images": self.nearest.held_out}
        rows = [(name, len(each), f"{median_low(each):.1f}") for name, each in distances.items() if each]
        caption = f"Distance to the nearest of {self.nearest.num_training:,} training images, in levels"
        return [Table(f"{caption} (0..255)", ["images", "count", "median"], rows)]


class CompletionResult(PictureResult):
    """Completions of `inputs` [B 3 H W]: `images` [B each 3 H W] where `hidden` [B H W] is True.

    `log_likelihood` is the sum of ln p(code) in nats, as in `Completions`.
    """

    title = "Completions"
    mask: str
    mask_hash: str
    hidden_fraction: tuple[float, ...]
    each: int
    passes: Passes | None
    sampling: SamplingConfig
    likelihood: Literal["raster", "path"]
    log_likelihood: tuple[tuple[float, ...], ...]
    images: Unsaved[Any] = unsaved()
    inputs: Unsaved[Any] = unsaved()
    hidden: Unsaved[Any] = unsaved()

    @property
    def caption(self) -> str:
        passes = f"; order {self.passes.order}, {self.passes.iterations} passes" if self.passes else ""
        mean = sum(self.hidden_fraction) / len(self.hidden_fraction)
        return (
            f"{self._count}, of which {mean:.0%} are masked ({Path(self.mask).name}), in gray-violet; "
            f"{self.each} of each{passes}; {self._when(self.sampling)}. {BASELINE}"
        )

    def tables(self) -> list[Table]:
        pairs = zip(self.hidden_fraction, self.log_likelihood, strict=True)
        rows = [
            (image, f"{hidden:.0%}", "  ".join(f"{each:,.1f}" for each in nats))
            for image, (hidden, nats) in enumerate(pairs)
        ]
        return [Table(LIKELIHOODS[self.likelihood], ["image", "masked", "completions"], rows)]


class ReconstructionResult(PictureResult):
    """Images with masked positions; `accuracy` is the fraction of masked codes predicted exactly."""

    title = "Reconstructions"
    accuracy: float
    reconstruction: Unsaved[Any] = unsaved()

    @property
    def caption(self) -> str:
        return (
            f"{self._count}, masked positions in gray-violet. Prediction: the most likely value of each "
            f"masked code, exact for {self.accuracy:.1%}; {self._when()}. {BASELINE}"
        )

    def tables(self) -> list[Table]:
        baselines = self.measurement.baselines if self.measurement else {}
        rows = [(name, f"{each:.1%}") for name, each in {"prediction": self.accuracy, **baselines}.items()]
        return [Table(f"Exact matches of masked codes, on {self._count}", ["", "exact"], rows)]
