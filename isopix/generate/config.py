"""Settings of sampling and completion; without PyTorch, so that help is instant."""

from typing import Annotated, Literal

from isopix.core.choices import Count, Precision, Range
from isopix.core.config import config

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
    """Precision of cached keys and values, and of matrix products: on GPUs of all, on CPUs with instructions
    for bf16 of those by large matrices. Default: that of the model.
    """
    compile: bool | None = None
    """Compile the step that samples a position, in 10 to 30 seconds the first time. Default: on GPUs."""


@config
class Passes:
    """How a masked model fills in hidden positions."""

    order: Order = "inward"
    """Positions that a masked model fills in first: next to visible, most confident, or random ones."""
    iterations: Count = 24
    """Number of passes of a masked model."""


DEFAULT_PASSES = Passes()
DEFAULT_SAMPLING = SamplingConfig()
