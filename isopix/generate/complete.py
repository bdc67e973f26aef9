"""Image completion: sampling given the first rows of an image."""

from collections.abc import Callable

import torch

from isopix.core.types import Images
from isopix.generate.sample import SampledImages, SamplingConfig, fill_in
from isopix.objectives.base import PretrainModel


def complete_images(
    model: PretrainModel,
    images: Images,
    *,
    rows: int,
    samples_per_prompt: int = 1,
    sampling: SamplingConfig,
    generator: torch.Generator,
    progress: Callable[[int], None] = lambda position: None,
) -> SampledImages:
    """Complete every image from its first `rows` rows of positions; the iGPT paper gives the upper half.

    Returns [B * samples_per_prompt, 3, H, W]; the completions of one image are adjacent. Raises ValueError if
    `rows` leaves no row to condition on or no row to sample.
    """
    grid = model.network.codec.grid
    if not 0 < rows < grid.rows:
        raise ValueError(f"rows must be between 1 and {grid.rows - 1} for this model; got {rows}")
    return fill_in(
        model,
        images,
        start=rows * grid.cols,
        samples_per_prompt=samples_per_prompt,
        sampling=sampling,
        generator=generator,
        progress=progress,
    )
